// What one rank counted, beside what the formulas say, and its way to rank 0.
//
// Formulas (ZeRO, arXiv 1910.02054, section 3), with Psi this rank's elements after tensor and
// pipeline splits, padding included, and N data ranks: weights in the compute type, Psi or Psi / N
// at stage 3; gradients in precision.gradients, Psi / N from stage 2 on; masters (where weights are
// narrower than f32) and moments in f32 (f64 for f64), Psi / N from stage 1 on. Peaks are those of
// steps, and theirs the forecast of this rank (recipes/memory/forecast.h), of kinds that it calls
// exact. The snapshot of a save in the background is a term of the host's peak, and never resident:
// that is what lies there when no save is in flight. Traffic: traffic_formula.h.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "recipes/memory/forecast.h"
#include "recipes/models/engine.h"
#include "recipes/report/run_report.h"
#include "recipes/train/step_memory.h"

namespace trireme {

// Counted during the training steps alone: evaluation and samples are left out.
struct CountedTraffic {
  Traffic bytes;
  std::int64_t steps = 0;    // attempted
  std::int64_t applied = 0;  // not skipped
  // Adds what `now` has more than `before`.
  void add(const Traffic& before, const Traffic& now);
};

RankReport rank_report(const Mesh& mesh, Engine& engine, const StepMemory& counted,
                       const CountedTraffic& traffic, const ForecastOptions& how = {});

// Lines of words, for transport between ranks.
std::string encode(const RankReport& report);
RankReport decode(const std::string& text);

}  // namespace trireme
