// Runs a schedule on paper: all stages' lists, rendezvous messages, given costs.
//
// A stage that reaches a group of communication actions posts them all and waits until each is
// matched by its peer (sends too: nothing is buffered, messages cost no time). Between two stages
// the i-th send meets the i-th receive. A schedule that completes so completes on any transport
// that matches messages of a pair in order. SimulationOptions has a more and a less patient reader.
#pragma once

#include <functional>
#include <vector>

#include "pipeline/schedule.h"

namespace trireme {

// Time of one computation on one stage, in any unit, >= 0. Never called for communication.
using ActionCost = std::function<double(int stage, const Action& action)>;

// Costs by kind, per chunk: a full backward takes both halves.
struct PassCosts {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
  double of(const Action& action) const;
};

struct Span {
  Action action;  // a computation
  double start = 0, end = 0;
};

struct StageTimeline {
  std::vector<Span> spans;  // in order of time
  double busy = 0;          // sum of the spans
  double bubble = 0;        // idle time between the first span's start and the last one's end
  int peak_in_flight = 0;   // most (micro-batch, chunk) between their forward and the end of their
                            // last backward half; forwards only: 0
  double end() const { return spans.empty() ? 0 : spans.back().end; }
};

struct Simulation {
  double makespan = 0;
  int chunks = 1;
  std::vector<StageTimeline> stages;
  // Idle share of all stages' time from 0 to the makespan.
  double bubble_fraction() const;
};

enum class Waiting {
  kEachMessage,  // plain blocking calls, one after the other
  kGroup,        // neighbouring messages are in flight together; wait for all of them
  kWhenNeeded    // a computation waits for the message it needs, nothing else waits: an executor
                 // that keeps its handles, or a device with a stream for messages
};

struct SimulationOptions {
  Waiting waiting = Waiting::kGroup;
};

// Throws Error, naming stages and actions, when lists contradict the rules of schedule.h: a
// micro-batch missing or twice, backward before forward, a message missing, superfluous or matched
// by another one, or a deadlock. A schedule without any backward is a forward-only one.
Simulation simulate(const Schedule& schedule, const ActionCost& cost,
                    const SimulationOptions& options = {});
Simulation simulate(const Schedule& schedule, const PassCosts& costs,
                    const SimulationOptions& options = {});

// simulate() for its errors.
void check_schedule(const Schedule& schedule);

// The textbook bubble of a schedule with equal stages, for messages to the user; costs are those of
// a whole stage. The simulator agrees (Waiting::kWhenNeeded) for gpipe, 1f1b and interleaved, for
// forwards only where v = 1 or m % p == 0, and for zb-h1 where the three passes cost the same and
// m >= p.
struct Bubble {
  double time = 0;      // idle time of a stage in one step
  double of_ideal = 0;  // over the time without bubble (Megatron's convention)
  double of_total = 0;  // over the whole step (GPipe's convention)
};
Bubble predicted_bubble(ScheduleKind kind, int p, int m, int v, const PassCosts& costs);

}  // namespace trireme
