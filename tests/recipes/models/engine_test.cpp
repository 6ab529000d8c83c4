// Types and determinism of whole training runs on the reference backend.
#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "tests/recipes/models/expectations.h"

namespace trireme::parity {
namespace {

TEST(F32Parity, Reference) {
  for (const ModelOptions& model : {tiny_gpt2(), tiny_llama(2), tiny_mlp()})
    expect_f32_parity(f32_task(model));
}

// A frozen matrix costs its forward and its input's gradient; attention and what is trained all.
TEST(ModelFlops, FrozenMatricesHaveNoGradient) {
  for (const ModelOptions& model : {tiny_gpt2(), tiny_llama(2)}) {
    const std::vector<LayerSpec> layers = layer_list(model);
    double forward = 0;
    for (const LayerSpec& layer : layers) forward += layer.forward_flops;
    EXPECT_EQ(training_flops_per_sample(model, layers), 3 * forward);
    const auto t = static_cast<double>(model.sequence),
               q = static_cast<double>(model.heads * model.head_dim);
    const double attention = 2 * q * t * t * static_cast<double>(model.layers);
    const auto all = [](const std::string&) { return true; };
    const double lookup = layers.front().forward_flops;  // no product of a matrix
    EXPECT_EQ(training_flops_per_sample(model, layers, all), 2 * forward + attention + lookup);
    const auto lookups = [](const std::string& name) {
      return name.starts_with("embedding.positions");
    };
    EXPECT_EQ(training_flops_per_sample(model, layers, lookups), 3 * forward);
  }
}

TEST(Partition, ExplicitCountsTrainAlike) {
  const Task task{.model = tiny_gpt2()};
  const Curve serial = train(task, {});
  for (const std::vector<int>& counts : {std::vector<int>{1, 4, 1}, {4, 1, 1}, {1, 1, 4}}) {
    const Curve curve = train(task, {.mesh = {.pipeline = 3}, .partition = counts});
    EXPECT_LE(distance(serial, curve), 1e-12);
    EXPECT_LE(distance(serial.weights, curve.weights), 1e-12);
  }
  EXPECT_THROW(train(task, {.mesh = {.pipeline = 3}, .partition = {3, 2}}), Error);
  EXPECT_THROW(train(task, {.mesh = {.pipeline = 3}, .partition = {3, 2, 2}}), Error);
  EXPECT_THROW(train(task, {.mesh = {.pipeline = 7}}), Error);
}

// f32 against f64: rounding, nothing else.
TEST(F32Parity, CloseToF64) {
  Task task = f32_task(tiny_llama(1));
  const Curve f32 = train(task, {});
  task.compute = DType::kF64;
  const Curve f64 = train(task, {});
  EXPECT_LE(distance(f64, f32), 1e-5);
  EXPECT_LE(distance(f64.gradients, f32.gradients), 1e-5);
}

TEST(NarrowParity, Reference) {
  for (const ModelOptions& model : {tiny_gpt2(), tiny_llama(2), tiny_mlp()})
    for (DType narrow : {DType::kBF16, DType::kF16}) expect_narrow_parity({.model = model}, narrow);
}

// Gradients in the compute type: coarser sums, the same training.
TEST(NarrowParity, GradientsOfTheComputeType) {
  for (const ModelOptions& model : {tiny_gpt2(), tiny_llama(1), tiny_mlp()}) {
    Task task{.model = model, .compute = DType::kBF16};
    const Curve wide = train(task, {});
    task.narrow_gradients = true;
    for (const Layout& layout : some_layouts(model)) {
      const Curve narrow = train(task, layout);
      EXPECT_LE(distance(wide, narrow), 0.01);
      EXPECT_LE(distance(wide.gradients, narrow.gradients), 0.05);
    }
  }
}

TEST(Determinism, TheSameLayoutHasTheSameBits) {
  for (const ModelOptions& model : {tiny_gpt2(), tiny_llama(1), tiny_mlp()}) {
    Task task{.model = model, .steps = 5, .compute = DType::kF32};
    task.model.dropout = 0.1;
    for (const Layout& layout : some_layouts(model)) {
      SCOPED_TRACE(text_of(layout));
      const Curve once = train(task, layout), again = train(task, layout);
      EXPECT_EQ(once.losses, again.losses);
      EXPECT_EQ(once.norms, again.norms);
      EXPECT_EQ(once.weights, again.weights);
    }
  }
}

// Collects only if all data replicas and tensor copies have the same bits.
TEST(Determinism, ReplicasAreEqualAfterFiveStepsWithDropout) {
  Task task{.model = tiny_gpt2(), .steps = 5, .compute = DType::kBF16};
  task.model.dropout = 0.1;
  for (const MeshShape& mesh : {MeshShape{.data = 4}, kCube, MeshShape{.data = 2, .tensor = 4}})
    EXPECT_NO_THROW(train(task, {.mesh = mesh}));
}

}  // namespace
}  // namespace trireme::parity
