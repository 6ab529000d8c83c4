// Tiny trainings under a baton (tests/support/baton.h): what must not change, and what is left of a
// run that was killed.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "recipes/train/save_session.h"
#include "tests/parity/train_layout.h"
#include "tests/support/baton.h"
#include "tests/support/simulated_files.h"

namespace trireme::test {

// T of the reliability table at a quarter of its width: many runs matter, not what they compute.
// GPT-2 of 2 layers, hidden 8, vocabulary 16, 4 tokens; batch of 4 samples. f64, reference.
parity::Task tiny_task();

// How many seeds and which, from the environment of the program: TRIREME_STORM_SEEDS (how many,
// over all layouts), TRIREME_STORM_FIRST (the first), TRIREME_STORM_LAYOUT (only this one).
struct StormRange {
  std::int64_t seeds = 500;
  std::int64_t first = 1;
  std::string layout;  // empty: all
};
StormRange& storm_range();  // set by main()

// One layout under one plan.
struct StormRun {
  std::vector<double> losses;
  parity::Logical weights;
  std::vector<std::string> errors;  // by rank; empty: none
  std::string thrown;               // by run_thread_ranks; empty: the run ended
  std::int64_t bytes_left = 0;      // in the ledgers of all ranks and tiers
  std::uint64_t hash = 0;
  StormCount count;
  bool equals(const StormRun& quiet) const {
    return thrown.empty() && losses == quiet.losses && weights == quiet.weights;
  }
};
// What each rank does; its errors are noted and thrown on.
using StormBody = std::function<void(parity::Rank& rank, StormRun& run)>;
StormRun run_storm(const parity::Task& task, const parity::Layout& layout, Baton& baton,
                   const StormBody& body);
// Trains task.steps steps and collects losses and weights.
StormRun train_in_storm(const parity::Task& task, const parity::Layout& layout, Baton& baton);
StormRun train_in_storm(const parity::Task& task, const parity::Layout& layout,
                        const StormPlan& plan);

std::int64_t threads_now();

}  // namespace trireme::test
