// Loss scales and skipped steps of whole models.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/base/error.h"
#include "tests/pitfalls/curves.h"

namespace trireme::pitfalls {
namespace {

using parity::random_samples;
using parity::source_of;
using parity::tiny_gpt2;

// A power of two changes no bit where nothing overflows: neither losses, norms nor weights know it.
TEST(ZeroPitfall, P1_AFixedLossScaleChangesNoBit) {
  Task task{.model = tiny_gpt2(), .global_batch = 4, .compute = DType::kF32};
  for (const Layout& layout : {Layout{}, Layout{.mesh = kCube, .zero_stage = 2}}) {
    SCOPED_TRACE(text_of(layout));
    task.loss_scale = {};
    const parity::Curve plain = parity::train(task, layout);
    task.loss_scale = {.initial = 1024};
    const parity::Curve scaled = parity::train(task, layout);
    EXPECT_EQ(scaled.losses, plain.losses);
    EXPECT_EQ(scaled.norms, plain.norms);
    EXPECT_EQ(scaled.weights, plain.weights);
  }
}

// One infinite element of a bias at step 3. Both runs load the same weights afterwards; what they
// train then also depends on moments and on the count of steps.
TEST(ZeroPitfall, P17_AWholeModelForgetsABadStepInAnyFormat) {
  for (DType compute : {DType::kF32, DType::kBF16, DType::kF16})
    for (int stage : {0, 1, 2, 3}) {
      SCOPED_TRACE(join(name_of(compute), " at stage ", stage));
      Task task{.model = tiny_gpt2(), .global_batch = 4, .compute = compute};
      if (compute == DType::kF16) task.loss_scale = {.dynamic = true, .initial = 256};
      const SampleSource source = random_samples(task.model, task.seed);
      const auto trained = [&](bool with_bad_step) {
        LogicalTensors kept, before, after, end;
        Logical poisoned;
        run_layout(task, {.mesh = kCube, .zero_stage = stage}, [&](Rank& rank) {
          for (int step = 0; step < 2; ++step) rank.engine.train(step, source);
          kept.add_weights(rank);
          rank.mesh.world().barrier();
          if (with_bad_step) {
            if (rank.first()) {
              poisoned = kept.tensors();
              poisoned.at("layers.3.mlp.up.bias")[5] = INFINITY;
            }
            rank.mesh.world().barrier();
            rank.engine.kept().load_values(source_of(poisoned));
            before.add_weights(rank);
            const StepResult bad = rank.engine.train(2, source).optimizer;
            EXPECT_TRUE(bad.skipped);
            EXPECT_FALSE(std::isfinite(bad.grad_norm));
            EXPECT_EQ(rank.engine.optimizer().steps_taken(), 2);
            after.add_weights(rank);
          }
          rank.engine.kept().load_values(source_of(kept.tensors()));
          for (int step = 2; step < 4; ++step)
            EXPECT_FALSE(rank.engine.train(step, source).optimizer.skipped);
          end.add_weights(rank);
        });
        EXPECT_EQ(before.tensors(), after.tensors());
        EXPECT_EQ(before.tensors().empty(), !with_bad_step);
        return end.tensors();
      };
      EXPECT_EQ(trained(true), trained(false));
    }
}

TEST(Pitfall, AllStagesHaveTheSameBitsIn16Bits) {
  for (DType compute : {DType::kBF16, DType::kF16})
    for (bool narrow : {false, true}) {
      Task task{.model = tiny_gpt2(),
                .global_batch = 4,
                .compute = compute,
                .narrow_gradients = narrow,
                .loss_scale = {.initial = 64}};
      const MeshShape mesh{.data = 2, .tensor = 2};
      const parity::Curve whole = parity::train(task, {.mesh = mesh, .micro = 2});
      for (int stage : {1, 2, 3}) {
        SCOPED_TRACE(join(name_of(compute), narrow ? " gradients too" : "", ", stage ", stage));
        const parity::Curve cut =
            parity::train(task, {.mesh = mesh, .micro = 2, .zero_stage = stage});
        EXPECT_EQ(cut.losses, whole.losses);
        EXPECT_EQ(cut.norms, whole.norms);
        EXPECT_EQ(cut.weights, whole.weights);
      }
    }
}

// From a scale that overflows at first: all ranks skip together, the scale goes where the rules
// send it, and the loss falls.
TEST(Pitfall, F16TrainsUnderADynamicLossScale) {
  Task task{.model = tiny_gpt2(),
            .global_batch = 4,
            .steps = 60,
            .lr_shape = LrShape::kConstant,
            .lr = 3e-3,
            .compute = DType::kF16};
  const SampleSource all = random_samples(task.model, task.seed);
  const SampleSource same = [&](std::int64_t first, std::int64_t count,
                                std::vector<std::int32_t>& ids, std::vector<std::int32_t>& labels) {
    all(first % task.global_batch, count, ids, labels);
  };
  for (double initial : {0x1p16, 0x1p24}) {
    task.loss_scale = {.dynamic = true, .initial = initial, .window = 5};
    run_layout(task, {.mesh = kCube, .zero_stage = 3}, [&](Rank& rank) {
      LossScaler expected(task.loss_scale);
      double first = 0, last = 0;
      int skipped = 0, grown = 0;
      for (int step = 0; step < task.steps; ++step) {
        const double scale = expected.scale();
        const EngineStep result = rank.engine.train(step, same);
        EXPECT_EQ(result.optimizer.loss_scale, scale) << "step " << step;
        expected.update(result.optimizer.skipped);
        skipped += result.optimizer.skipped ? 1 : 0;
        grown += expected.scale() > scale ? 1 : 0;
        if (step == 0) first = result.loss;
        last = result.loss;
      }
      EXPECT_GT(grown, 0);
      EXPECT_GT(skipped, 0);
      EXPECT_EQ(rank.engine.optimizer().steps_taken(), task.steps - skipped);
      EXPECT_LT(last, 0.9 * first);
      EXPECT_LT(first, 2 * std::log(13.0));  // reported without the scale
    });
  }
}

}  // namespace
}  // namespace trireme::pitfalls
