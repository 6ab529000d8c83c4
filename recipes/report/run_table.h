// Runs side by side: one row each, and whether they trained to the same numbers. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recipes/report/run_folder.h"

namespace trireme {

// The largest relative difference between the losses of two runs at one step, over some steps.
struct LossSpread {
  std::int64_t steps = 0;         // looked at
  double difference = 0;          // infinite where the loss of only some runs is a number
  std::int64_t step = 0;          // where
  std::size_t low = 0, high = 0;  // runs
};

// Layouts round differently, and training carries that on, so the promise is about the first steps:
// 5 within 1e-12 (f64) or 1e-5 (f32), 50 within 1 % (16 bits).
struct LossComparison {
  double tolerance = 0;    // of the least precise run
  std::string precision;   // its compute type
  LossSpread judged, all;  // the first common steps; all of them
  // Keys that decide what is learned and are not the same in all recipes.
  std::vector<std::string> different_keys;
  bool agree() const { return judged.difference <= tolerance; }
};

LossComparison compare_losses(const std::vector<RunFolder>& runs);

// A row a run: layout; steps, last losses; bytes of the fullest rank at the peak and between steps;
// bytes that all ranks sent a step; mean speed without the first step. Columns that are empty for
// all runs are left out. Below: which runs have not ended, and the comparison if there are several.
std::string runs_text(const std::vector<RunFolder>& runs);
// {"runs": [{...}], "losses": {...} or null}: the same in bytes and 17 digits; what is absent is
// null.
std::string runs_json(const std::vector<RunFolder>& runs);

}  // namespace trireme
