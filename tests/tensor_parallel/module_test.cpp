// Every tensor-parallel module against itself on one rank: outputs, dX, dW and db, for each of
// {sequence parallel, split backward, recomputed}.
#include <gtest/gtest.h>

#include "framework/autograd/ops.h"
#include "framework/nn/norm.h"
#include "tensor_parallel/attention.h"
#include "tensor_parallel/mlp.h"
#include "tests/tensor_parallel/module_run.h"

namespace trireme::test {
namespace {

BuildModule attention(AttentionOptions options) {
  return [options](const TensorGroup& group, bool sequence_parallel) -> ModulePtr {
    AttentionOptions o = options;
    o.sequence_parallel = sequence_parallel;
    return std::make_unique<SelfAttention>(group, "attention", o);
  };
}

BuildModule mlp(MlpOptions options) {
  return [options](const TensorGroup& group, bool sequence_parallel) -> ModulePtr {
    MlpOptions o = options;
    o.sequence_parallel = sequence_parallel;
    return std::make_unique<Mlp>(group, "mlp", o);
  };
}

// norm -> mlp -> dropout, with x added: rows are sharded in between under sequence parallelism.
class Block : public Module {
 public:
  Block(const TensorGroup& group, bool sequence_parallel)
      : group_(group),
        norm_("norm",
              {.columns = 8,
               .sum = sequence_parallel && group.size() > 1 ? SumGroup::kTensor : SumGroup::kNone,
               .counts_in_norm = group.rank() == 0}),
        mlp_(group, "mlp", {.columns = 8, .ffn = 16, .sequence_parallel = sequence_parallel}) {}
  Var forward(const Context& ctx, const Var& x) override {
    const Var y = mlp_.forward(ctx, norm_.forward(ctx, x));
    return add(ctx, x,
               dropout(ctx, y,
                       {.site = 4,
                        .p = 0.5,
                        .first_row = first_global_row(ctx, group_, y.value.rows(), ctx.tokens)}));
  }
  void visit(const ParameterFn& fn) override {
    norm_.visit(fn);
    mlp_.visit(fn);
  }

 private:
  TensorGroup group_;
  Norm norm_;
  Mlp mlp_;
};

TEST(TensorParallel, Mlp) {
  expect_same_for_all({.build = mlp({.columns = 8, .ffn = 16}), .inputs = 8, .outputs = 8}, {2, 4},
                      true);
  expect_same_for_all({.build = mlp({.columns = 6,
                                     .inputs = 10,
                                     .ffn = 8,
                                     .activation = Activation::kSilu,
                                     .gated = true,
                                     .bias = false}),
                       .inputs = 10,
                       .outputs = 6},
                      {2}, true);
}

TEST(TensorParallel, Attention) {
  expect_same_for_all({.build = attention({.columns = 12,
                                           .heads = 4,
                                           .kv_heads = 4,
                                           .head_dim = 2,
                                           .bias = true,
                                           .dropout = 0.25}),
                       .inputs = 12,
                       .outputs = 12,
                       .rng = key_from_seed(1)},
                      {2, 4}, true);
  expect_same_for_all(
      {.build = attention({.columns = 8, .heads = 4, .kv_heads = 1, .head_dim = 4, .rotary = true}),
       .inputs = 8,
       .outputs = 8},
      {2, 4}, true);
}

TEST(TensorParallel, BlockWithNormDropoutAndResidual) {
  const BuildModule build = [](const TensorGroup& group, bool sequence_parallel) -> ModulePtr {
    return std::make_unique<Block>(group, sequence_parallel);
  };
  expect_same_for_all({.build = build, .inputs = 8, .outputs = 8, .rng = key_from_seed(1)}, {2, 4},
                      true);
}

}  // namespace
}  // namespace trireme::test
