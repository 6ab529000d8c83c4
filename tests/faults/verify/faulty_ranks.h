// Ranks that compute, receive or remember one wrong bit, when and where a test wants it, trained
// under a StepVerifier; and what a quiet run of the same layout does, as the oracle.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "recipes/train/step_verifier.h"
#include "tests/parity/train_layout.h"

namespace trireme::test {

// One bit. `where` is what a kernel wrote ("matmul", "adam exp_avg": flipping_backend.cpp), what a
// communicator gave ("all_reduce", "recv"), or "rest value", "rest exp_avg": the array between
// steps, "use value": the weights as the step begins, "padding": behind the last parameter of a
// unit.
struct Fault {
  std::string where;
  int bit = 0;
  int rank = 0;
  std::uint64_t pick = 0;  // which call and which element
  bool every_run = false;  // else in the first run of the step only
};

struct Flips {
  parity::Task task;
  parity::Layout layout;
  std::int64_t every = 1, most_times = 1000000;
  std::map<std::int64_t, Fault> faults;  // by step, from 0
};

struct StepSeen {
  bool fired = false;
  std::string tensor;         // of a fault at rest: "layers.0.mlp.up.weight (exp_avg)"
  bool changed = false;       // did the first run differ from the quiet one on some rank?
  bool loss_changed = false;  // in its loss
  bool right = true;          // what stands is what the quiet run has, on every rank
  std::vector<std::string> said;
};

// Trains `steps` steps twice, quiet and with faults.
std::vector<StepSeen> train_with_faults(const Flips& flips, int steps);

}  // namespace trireme::test
