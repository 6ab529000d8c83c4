// A file written by make_golden.py, in our terms: logical tensors under our names.
#pragma once

#include <string>
#include <vector>

#include "tests/parity/train_layout.h"

namespace trireme::golden {

struct Golden {
  parity::Task task;     // sizes, optimizer, batch
  SampleSource samples;  // the batch, again at every step
  std::vector<double> losses, norms;
  parity::Logical weights, gradients,
      after;  // initial; of the first step, before clipping; trained
};

// Reads tests/golden/`name`.json. The file's fused projections become the tensors they hold:
// attention.qkv is q, k, v, and a gated mlp.up is gate, up.
Golden read_golden(const std::string& name);
// Adapters by make_lora.py beside the frozen weights of `name`.json: gradients and trained tensors
// are those of the adapters, `weights` has both.
Golden read_lora_golden(const std::string& name);

}  // namespace trireme::golden
