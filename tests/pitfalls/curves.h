// Small helpers for tests of whole tiny models under layouts.
#pragma once

#include "tests/parity/train_layout.h"

namespace trireme::pitfalls {

using parity::Layout;
using parity::Logical;
using parity::LogicalTensors;
using parity::Rank;
using parity::run_layout;
using parity::Task;

inline constexpr MeshShape kCube{.data = 2, .pipeline = 2, .tensor = 2};

// Greedy continuation of `prompt` by `count` tokens, from the window that the model was made for.
// Every rank gets it. `logits`: of the last position of each step, on the last stage.
struct Greedy {
  std::vector<std::int32_t> tokens;
  std::vector<double> logits;
};
Greedy greedy(Rank& rank, std::vector<std::int32_t> prompt, int count, std::int64_t window);

}  // namespace trireme::pitfalls
