// What one rank does in traced steps, as events of a Chrome trace.
//
// Tracks of a rank: "steps"; "compute" with the schedule's F, B and W and the optimizer's part of
// the step; "communication" with every operation. An operation that was waited for at once is one
// event; otherwise "start ..." and "wait ..." show what ran between. All of it happens on one
// thread, so events of a track follow or hold each other, never cross. An arrow leads from each
// send to its receive.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "pipeline/runner.h"
#include "recipes/report/trace.h"

namespace trireme {

class StepTrace {
 public:
  // `clock`: seconds since a moment that all ranks share. `world` must outlive it.
  StepTrace(Communicator& world, Clock clock) : world_(world), clock_(std::move(clock)) {}

  // Observes communication from here to the end of the step. `runner` must use the same clock.
  void begin_step();
  void end_step(std::int64_t step, double begin, double end, const Runner& runner);
  const std::vector<TraceEvent>& events() const { return events_; }

 private:
  TraceEvent event(const std::string& stream, const std::string& name, double begin,
                   double end) const;
  void add_communication();
  std::int64_t arrow(int from, int to, std::int64_t sequence) const;

  Communicator& world_;
  Clock clock_;
  std::vector<CommSpan> spans_;  // of the step at hand
  std::vector<TraceEvent> events_;
};

// For transport between ranks: a line an event.
std::string encode_trace(const std::vector<TraceEvent>& events);
void decode_trace(const std::string& text, int rank, std::vector<TraceEvent>& events);

}  // namespace trireme
