// Column- and row-parallel linear layers (Megatron-LM, arXiv 1909.08053, section 3). t = 1 is the
// serial model.
//
// A frozen weight costs no product in backward, and the input is not kept for it.
//
// Legend: R rows, K inputs, N outputs, t tensor ranks. Weights are (N, K), y = x W^T + b, plus what
// an adapter (tensor_parallel/lora.h) adds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/nn/module.h"
#include "tensor_parallel/column_part.h"
#include "tensor_parallel/lora.h"
#include "tensor_parallel/regions.h"

namespace trireme {

// The even cut of `rows` over the group.
ColumnPart even_part(const TensorGroup& group, std::string name, std::int64_t rows);

struct LinearOptions {
  std::string name;
  std::int64_t inputs = 0;  // K, whole
  bool bias = true;
  double init_std = 0.02;
  LoraOptions lora = {};  // the adapters beside it, if they name it or one of its parts
};

// Outputs are cut over the ranks. x (R, K), or (R / t, K) with sharded rows -> (R, N / t) compute.
class ColumnLinear : public Module {
 public:
  ColumnLinear(const TensorGroup& group, const LinearOptions& options,
               const std::vector<ColumnPart>& parts);
  Var forward(const Context& ctx, const Var& x) override;
  void visit(const ParameterFn& fn) override;

 private:
  TensorGroup group_;
  Parameter weight_;
  std::optional<Parameter> bias_;
  std::optional<LoraAdapter> lora_;
};

// Inputs are cut over the ranks: x (R, K / t) -> (R, N), or (R / t, N) with sharded rows, compute.
// The bias is held whole by every rank and added once, after the sum; `sequence_parallel` tells
// that its gradient will be summed over the ranks.
class RowLinear : public Module {
 public:
  RowLinear(const TensorGroup& group, const LinearOptions& options, std::int64_t outputs,
            bool sequence_parallel);
  Var forward(const Context& ctx, const Var& x) override;
  void visit(const ParameterFn& fn) override;

 private:
  TensorGroup group_;
  Parameter weight_;
  std::optional<Parameter> bias_;
  std::optional<LoraAdapter> lora_;
};

// y = x W^T + bias. A pass with a cache reads weights at the memory's rate (InferKernels), and so
// does every one whose weight is quantized; else y has the bits of a training pass.
void product(const Context& ctx, const Tensor& x, const Parameter& w, const Tensor& bias,
             const Tensor& y);

// dW (+)= dy^T x, and db (+)= column sums, for parameters that are trained. Runs from the tape's
// queue.
void add_weight_gradient(Backend& backend, Parameter& weight, const Tensor& dy, const Tensor& x);
void add_bias_gradient(Backend& backend, Parameter& bias, const Tensor& dy);

}  // namespace trireme
