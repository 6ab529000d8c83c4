// How well computing hides the stream of weights: each alone, the other disabled, then both.
//
//   overlap = (fetch + compute - both) / min(fetch, compute)     1: perfect
//
// Passes have rows of one text, and the logits of its last one. All in seconds a pass.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "recipes/serve/model_runner.h"

namespace trireme {

struct StreamPass {
  std::int64_t rows = 0;
  double compute = 0, both = 0, stalled = 0;
};

struct StreamFigures {
  std::int64_t bytes = 0;  // a pass brings
  double fetch = 0;
  std::vector<StreamPass> passes;  // the last one has `hides` rows, if so many were tried
  double hides = 0;                // rows of a pass whose computing takes as long as the stream
  double overlap(const StreamPass& pass) const;
};

// All ranks call it; figures are those of rank 0. `most`: rows of the largest pass. `ends` is asked
// by all ranks before each pass, and says the same on all: nothing is told then.
std::optional<StreamFigures> bench_stream(const RankParts& rank, std::int64_t most,
                                          const std::function<bool()>& ends = {});

// How much of the stream's time passes ran on beside it, from what a run counted: (busy - stalled)
// / min(busy, computing). 1: one of the two was hidden by the other; 0: they took turns.
double overlap_of(const StreamTimes& times);

}  // namespace trireme
