// Recomputation changes memory, never numbers; and nothing depends on chance.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/autograd/ops.h"
#include "tensor_parallel/linear.h"
#include "tests/pitfalls/curves.h"
#include "tests/support/tensors.h"
#include "tests/tensor_parallel/module_run.h"

namespace trireme::pitfalls {
namespace {

using parity::tiny_gpt2;
using parity::tiny_llama;

TEST(Pitfall, P12_RecomputationHasTheSameBitsWithDropout) {
  for (const ModelOptions& model : {tiny_gpt2(), tiny_llama(2), parity::tiny_mlp()})
    for (const MeshShape& mesh : {MeshShape{}, kCube}) {
      Task task{.model = model, .global_batch = 4};
      task.model.dropout = 0.5;
      const parity::Curve plain = parity::train(task, {.mesh = mesh});
      for (RecomputeMode mode : {RecomputeMode::kFull, RecomputeMode::kSelective}) {
        const parity::Curve again = parity::train(task, {.mesh = mesh, .recompute = mode});
        EXPECT_EQ(again.losses, plain.losses);
        EXPECT_EQ(again.gradients, plain.gradients);
        EXPECT_EQ(again.weights, plain.weights);
      }
    }
}

TEST(Pitfall, P32_TheLastSegmentMayBeSmaller) {
  Task task{.model = tiny_gpt2(), .global_batch = 4};
  task.model.layers = 5;
  const Layout segments{.recompute = RecomputeMode::kFull, .recompute_every = 2};
  run_layout(task, segments, [](Rank& rank) {
    // embedding, (2, 2, 1) layers, head
    EXPECT_EQ(rank.engine.stage().chunks()[0].entries.size(), 5U);
    EXPECT_EQ(rank.engine.stage().entries_per_chunk(), std::vector<int>{7});
  });
  const parity::Curve plain = parity::train(task, {}), again = parity::train(task, segments);
  EXPECT_EQ(again.gradients, plain.gradients);
  EXPECT_EQ(again.losses, plain.losses);
}

// loss = w * a + w * b: a weight that is used twice.
class UsedTwice : public Module {
 public:
  explicit UsedTwice(const TensorGroup& group)
      : linear_(group, {.name = "w", .inputs = 1, .bias = false}, {even_part(group, "w", 1)}) {}
  Var forward(const Context& ctx, const Var& x) override {
    const Var b{test::tensor(ctx.backend, {1, 1}, DType::kF64, {5})};
    return add(ctx, linear_.forward(ctx, x), linear_.forward(ctx, b));
  }
  void visit(const ParameterFn& fn) override { linear_.visit(fn); }

 private:
  ColumnLinear linear_;
};

TEST(ZeroPitfall, P11_AParameterUsedTwiceGetsBothGradients) {
  const test::ModuleCase module{.build = [](const TensorGroup& group, bool) -> ModulePtr {
                                  return std::make_unique<UsedTwice>(group);
                                },
                                .samples = 1,
                                .tokens = 1,
                                .inputs = 1,
                                .outputs = 1};
  const double a = test::normals(1, 21)[0], dy = test::normals(1, 22)[0];
  for (bool split : {false, true})
    for (bool recompute : {false, true}) {
      const auto result = test::run_module(module, {.split = split, .recompute = recompute});
      EXPECT_DOUBLE_EQ(result.gradients.at("w.weight")[0], dy * (a + 5));
    }
}

TEST(ZeroPitfall, P30_MemoryDoesNotGrowWithSteps) {
  Task task{.model = tiny_gpt2(), .global_batch = 4, .compute = DType::kF32};
  task.model.dropout = 0.1;
  const SampleSource source = parity::random_samples(task.model, task.seed);
  run_layout(task, {.mesh = {.pipeline = 2, .tensor = 2}, .recompute = RecomputeMode::kFull},
             [&](Rank& rank) {
               MemoryLedger& ledger = rank.backend.ledger();
               std::int64_t third = 0, resident = 0;
               for (int step = 1; step <= 50; ++step) {
                 ledger.reset_peaks();
                 rank.engine.train(step, source);
                 rank.mesh.world().barrier();
                 if (step == 3) {
                   third = ledger.peak(Tier::kDevice);
                   resident = ledger.current(Tier::kDevice);
                 }
               }
               EXPECT_EQ(ledger.peak(Tier::kDevice), third);
               EXPECT_EQ(ledger.current(Tier::kDevice), resident);
             });
}

TEST(Pitfall, P33_GreedyTextIsTheSameEveryTime) {
  const Task task{.model = tiny_llama(2), .compute = DType::kF32};
  const auto logits = [&](int tensor, int repeats) {
    std::vector<double> first;
    run_layout(task, {.mesh = {.tensor = tensor}}, [&](Rank& rank) {
      const Greedy once = greedy(rank, {1, 2, 3}, 4, 8);
      for (int i = 1; i < repeats; ++i) {
        const Greedy again = greedy(rank, {1, 2, 3}, 4, 8);
        EXPECT_EQ(again.tokens, once.tokens);
        EXPECT_EQ(again.logits, once.logits);
      }
      if (rank.first()) first = once.logits;
    });
    return first;
  };
  const std::vector<double> serial = logits(1, 1), two = logits(2, 100);
  ASSERT_EQ(serial.size(), 4U * 13U);
  ASSERT_EQ(two.size(), serial.size());
  for (std::size_t i = 0; i < serial.size(); ++i) EXPECT_NEAR(two[i], serial[i], 1e-4);
}

}  // namespace
}  // namespace trireme::pitfalls
