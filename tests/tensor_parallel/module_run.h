// Runs one module over tensor ranks, forward and backward, and puts the pieces together again: what
// comes out must not depend on the number of ranks, on sequence parallelism, or on a split
// backward.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/nn/module.h"
#include "tensor_parallel/regions.h"
#include "tests/support/ranks.h"

namespace trireme::test {

using BuildModule = std::function<ModulePtr(const TensorGroup& group, bool sequence_parallel)>;

struct ModuleCase {
  BuildModule build;
  std::int64_t samples = 2, tokens = 4;  // rows = samples x tokens
  std::int64_t inputs = 0, outputs = 0;  // columns of x and of dy
  std::optional<RngKey> rng = {};
};

struct HowToRun {
  int ranks = 1;
  bool sequence_parallel = false;
  bool split = false;  // backward in two halves
  bool recompute = false;
  bool selective = false;
};
std::string text_of(const HowToRun& how);

struct ModuleResult {
  std::vector<double> y, dx;                             // (rows, columns), whole
  std::map<std::string, std::vector<double>> gradients;  // logical tensors
  double norm = 0;  // of all gradients, each element counted once
};

// x, dy and the weights are the same random numbers for every `how`; biases are random too. Throws
// when copies of a gradient or of the output differ between ranks. f64.
ModuleResult run_module(const ModuleCase& module, const HowToRun& how);

// Every way to run with up to `ranks` tensor ranks gives the same, to 1e-12 of the largest element.
void expect_same_for_all(const ModuleCase& module, std::vector<int> ranks, bool sequence_parallel);

}  // namespace trireme::test
