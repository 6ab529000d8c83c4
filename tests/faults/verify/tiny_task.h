// The model that these tests train: small enough for thousands of steps.
#pragma once

#include "tests/parity/train_layout.h"

namespace trireme::test {

inline parity::Task tiny_task(DType compute) {
  parity::Task task{.model = parity::tiny_gpt2(), .global_batch = 4};
  task.model.layers = 2;
  task.model.hidden = 8;
  task.model.heads = task.model.kv_heads = 2;
  task.model.ffn = 16;
  task.model.sequence = 4;
  task.lr_shape = LrShape::kConstant;
  task.lr = 1e-3;
  task.compute = compute;
  return task;
}

}  // namespace trireme::test
