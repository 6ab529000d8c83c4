// How all ranks score what only rank 0 has read: it leads, and hands each batch of samples to the
// others, which follow. So one process opens the user's files, whether ranks are threads or
// processes on several machines, and all cut a text alike.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "recipes/commands/opened_model.h"
#include "recipes/report/console.h"

namespace trireme {

// As Engine::score() takes them.
struct ScoreBatch {
  std::int64_t samples = 0, tokens = 0;   // of each sample
  std::vector<std::int32_t> ids, labels;  // (samples, tokens)
  std::vector<std::int32_t> starts;       // where documents begin; empty: samples are seen whole
};

// World rank 0's. Shows a bar on a live terminal.
class ScoreLeader {
 public:
  // `all`: how many `what` ("windows") there are.
  ScoreLeader(const Process& process, const OpenedModel& model, std::int64_t all, const char* what);
  // Of the next batch, which is not empty. Error if a signal asked any rank to end.
  std::vector<SampleScore> score(ScoreBatch batch);
  // There are no more: the others go on.
  void end();

 private:
  void show();

  const Process& process_;
  const OpenedModel& model_;
  std::int64_t all_, done_ = 0;
  const char* what_;
  Console console_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// On the other ranks: scores what the leader hands out, until it ends.
void follow_scores(const Process& process, const OpenedModel& model);

}  // namespace trireme
