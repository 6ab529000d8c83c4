// The attention half of a Transformer layer, heads cut over the tensor ranks (arXiv 1909.08053,
// section 3; grouped-query attention arXiv 2305.13245).
//
// Legend: H query heads, G key/value heads, D head size, t tensor ranks, R rows, C channels.
#pragma once

#include <memory>
#include <string>

#include "tensor_parallel/linear.h"

namespace trireme {

struct AttentionOptions {
  std::int64_t columns = 0;  // C
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  bool bias = false;      // of the output projection, and of q, k, v
  bool qkv_bias = false;  // of q, k, v although there is no other
  // RMS norm of each query and key head before positions rotate them; weights `name`.q_norm.weight
  // and `name`.k_norm.weight, (head_dim).
  bool qk_norm = false;
  double norm_eps = 1e-6;  // of qk_norm
  bool rotary = false;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling = {};
  std::int64_t window = 0;  // tokens that a query sees, itself included; 0 = all before it
  double dropout = 0;       // of attention probabilities
  double init_std = 0.02, output_init_std = 0.02;
  bool sequence_parallel = false;
  LoraOptions lora = {};  // adapters of q, k, v (or qkv, all in one) and output
};

// The fused projection is [H / t query heads | key heads | value heads]. With G >= t the G
// key/value heads are cut; with G < t each is held by t / G neighbouring ranks, whose weight
// gradients are summed (SumGroup::kKvReplicas). Weights of qk_norm are whole on every rank, but
// each applies them to its own heads: their gradients are always summed over the tensor ranks. That
// holds for replicated key heads, too: a replica's gradient comes from its own query heads.
class SelfAttention : public Module {
 public:
  // Throws Error, naming the legal sizes, when heads or kv_heads cannot be cut.
  SelfAttention(const TensorGroup& group, const std::string& name, const AttentionOptions& options);
  // (R, C) or (R / t, C) compute -> the same rows
  Var forward(const Context& ctx, const Var& x) override;
  void visit(const ParameterFn& fn) override;

 private:
  Var attend(const Context& ctx, const Var& qkv);
  Var attend_cached(const Context& ctx, const Var& qkv);

  TensorGroup group_;
  AttentionOptions options_;
  std::string name_;
  std::int64_t local_heads_, local_kv_heads_;
  ColumnLinear qkv_;
  std::unique_ptr<Parameter> query_norm_, key_norm_;
  RowLinear output_;
};

// "1, 2, 3, 4, 6 or 12": the divisors of n, for messages.
std::string legal_divisors(std::int64_t n);

}  // namespace trireme
