// Low-rank adapters beside frozen linears (LoRA, arXiv 2106.09685): y += scale * (x A^T) B^T.
//
// A (r, K) begins uniform in +-1 / sqrt(K), as PEFT's does, B (N, r) at zero: before the first step
// the model is the base, bit for bit. Adapters of one fused linear (queries, keys, values; gate and
// up) have their A's stacked, so that one product serves them all; GPT-2's c_attn has one adapter
// for all its rows.
//
// Over t tensor ranks no collective is added. Beside a column linear A is whole on every rank and
// meets only this rank's rows of B: its gradient is summed (SumGroup::kTensor), its part of dx goes
// into the sum that the linear has anyway. Beside a row linear A is cut by columns; partial
// products with the whole B join the linear's partial sums, and B's gradient is summed.
//
// Legend: R rows, K inputs, N outputs (this rank's), r rank, P adapters of one linear, t tensor
// ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/nn/module.h"
#include "tensor_parallel/column_part.h"
#include "tensor_parallel/regions.h"

namespace trireme {

struct LoraOptions {
  std::int64_t rank = 0;  // r; 0: no adapters
  double scale = 1;       // alpha / r, or alpha / sqrt(r)
  // Linears with an adapter, as ends of their names after a dot: "attention.q", "mlp.down". Of a
  // fused linear the parts, or the whole ("attention.qkv"): then all parts have one.
  std::vector<std::string> targets = {};

  bool adapts(std::string_view linear) const;
};

// Logical tensors of an adapter: `linear`.lora_A.weight and `linear`.lora_B.weight.
std::string lora_a_name(const std::string& linear);
std::string lora_b_name(const std::string& linear);
bool is_adapter(std::string_view parameter);
// How a logical tensor of that name and shape begins.
Init lora_init(std::string_view name, const Shape& logical);

class LoraAdapter {
 public:
  // Nothing where no part, or the linear, is adapted.
  static std::optional<LoraAdapter> of_columns(const TensorGroup& group, const LoraOptions& options,
                                               const std::string& linear, std::int64_t inputs,
                                               const std::vector<ColumnPart>& parts);
  static std::optional<LoraAdapter> of_rows(const TensorGroup& group, const LoraOptions& options,
                                            const std::string& linear, std::int64_t inputs,
                                            std::int64_t outputs);

  // scale * x A^T (R, P r) compute for x (R, K), which backward takes as `low`.
  Tensor narrow(const Context& ctx, const Tensor& x) const;
  // y (R, N) = its part + bias, which may be absent; or += it, without a bias.
  void widen(const Context& ctx, const Tensor& low, const Tensor& bias, const Tensor& y,
             bool accumulate) const;
  // dx (R, K), if there is one, = its part for dy (R, N). Returns the gradient of x A^T (R, P r).
  Tensor backward(const Context& ctx, const Tensor& dy, const Tensor& dx) const;
  // Runs from the tape's queue.
  void add_weight_gradients(const Context& ctx, const Tensor& dy, const Tensor& low,
                            const Tensor& low_gradient, const Tensor& x);
  // Does its own gradient need x? Not if A is frozen.
  bool needs_input() const { return a_.spec().trainable; }
  void visit(const ParameterFn& fn);

 private:
  // Rows of the linear's output that one adapter serves, as a group that lies together in B, too.
  struct Span {
    std::int64_t row = 0, b_row = 0, rows = 0;
    std::int64_t adapter = 0;  // 0 to P - 1
  };
  LoraAdapter(ParameterSpec a, ParameterSpec b, std::vector<Span> spans, std::int64_t outputs,
              const LoraOptions& options);
  bool direct() const;
  std::vector<std::int32_t> spread_rows() const;
  std::vector<std::int32_t> gathered_rows() const;
  Tensor spread_b(const Context& ctx) const;

  Parameter a_;  // (P r, K)
  Parameter b_;  // (adapted rows, r)
  std::vector<Span> spans_;
  std::int64_t outputs_, rank_, adapters_;
  double scale_;
};

}  // namespace trireme
