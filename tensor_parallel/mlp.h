// The feed-forward half of a Transformer layer: column linear, activation, row linear (arXiv
// 1909.08053, section 3; gated variants arXiv 2002.05202).
#pragma once

#include <string>

#include "tensor_parallel/linear.h"

namespace trireme {

struct MlpOptions {
  std::int64_t columns = 0;  // C, and outputs of the row linear
  std::int64_t inputs = 0;   // of the column linear; 0 = columns
  std::int64_t ffn = 0;      // F
  Activation activation = Activation::kGeluTanh;
  bool gated = false;  // up is [gate | up], logical tensors `name`.gate and `name`.up
  bool bias = true;
  double init_std = 0.02, output_init_std = 0.02;
  bool sequence_parallel = false;
  LoraOptions lora = {};  // adapters of gate, up and down
};

class Mlp : public Module {
 public:
  Mlp(const TensorGroup& group, const std::string& name, const MlpOptions& options);
  // (R, inputs) -> (R, C) compute; rows may be sharded.
  Var forward(const Context& ctx, const Var& x) override;
  void visit(const ParameterFn& fn) override;

 private:
  MlpOptions options_;
  ColumnLinear up_;
  RowLinear down_;
};

}  // namespace trireme
