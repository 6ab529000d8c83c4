// Against torch in f64: losses, norms, every gradient of the first step, and the weights after five
// AdamW steps with clipping, decay groups and label smoothing. Serial and under layouts.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/golden/golden_file.h"
#include "tests/support/tensors.h"

namespace trireme::golden {
namespace {

using parity::Layout;
using parity::Logical;

constexpr double kTolerance = 1e-10;

// Tensor by tensor, so that a small one cannot hide behind a large one.
void expect_close(const Logical& got, const Logical& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, values] : expected) {
    ASSERT_TRUE(got.contains(name)) << name;
    EXPECT_TRUE(test::close(got.at(name), values, kTolerance)) << name;
  }
}

void expect_golden(const Golden& golden, const Layout& layout) {
  parity::LogicalTensors gradients, weights;
  std::vector<double> losses, norms;
  parity::run_layout(golden.task, layout, [&](parity::Rank& rank) {
    rank.engine.kept().load_values(parity::source_of(golden.weights));
    for (int step = 0; step < golden.task.steps; ++step) {
      const EngineStep result = rank.engine.train(step, golden.samples);
      if (step == 0) gradients.add_gradients(rank);
      if (!rank.first()) continue;
      losses.push_back(result.loss);
      norms.push_back(result.optimizer.grad_norm);
    }
    weights.add_weights(rank);
  });
  EXPECT_TRUE(test::close(losses, golden.losses, kTolerance));
  EXPECT_TRUE(test::close(norms, golden.norms, kTolerance));
  // A key bias moves all scores of a query alike: its gradient is 0 but for rounding, and so small
  // a number says nothing. The whole model's largest gradient is the measure there.
  double largest = 0;
  for (const auto& [tensor, values] : golden.gradients)
    for (double v : values) largest = std::max(largest, std::abs(v));
  for (const auto& [tensor, values] : golden.gradients) {
    ASSERT_TRUE(gradients.tensors().contains(tensor)) << tensor;
    const std::vector<double>& got = gradients.tensors().at(tensor);
    ASSERT_EQ(got.size(), values.size()) << tensor;
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(got[i], values[i], kTolerance * largest) << tensor << " element " << i;
  }
  EXPECT_EQ(gradients.tensors().size(), golden.gradients.size());
  parity::Logical trained = weights.tensors();
  std::erase_if(trained, [&](const auto& tensor) { return !golden.after.contains(tensor.first); });
  expect_close(trained, golden.after);
  if (!golden.task.frozen) {
    EXPECT_EQ(weights.tensors().size(), golden.after.size());
  }
}

void expect_golden(const std::string& name, const Layout& layout) {
  SCOPED_TRACE(name + ": " + text_of(layout));
  expect_golden(read_golden(name), layout);
}

TEST(Golden, SerialGpt2) { expect_golden("gpt2", {}); }
TEST(Golden, SerialLlama) { expect_golden("llama", {}); }
TEST(Golden, SerialMlp) { expect_golden("mlp", {.micro = 2}); }

// Samples of several documents, which do not see each other and begin their positions anew.
TEST(Golden, Documents) {
  for (const std::string name : {"gpt2_documents", "llama_documents"}) {
    expect_golden(name, {});
    expect_golden(name, {.mesh = {.data = 3, .tensor = 2}, .sequence_parallel = true});
    expect_golden(name, {.mesh = {.pipeline = 3},
                         .schedule = ScheduleKind::kZeroBubbleH1,
                         .recompute = RecomputeMode::kSelective});
  }
}

TEST(Golden, Layouts) {
  const Layout three{.mesh = {.data = 3, .tensor = 2}, .sequence_parallel = true};
  const Layout four{.mesh = {.pipeline = 2, .tensor = 4}, .recompute = RecomputeMode::kFull};
  const Layout split{.mesh = {.pipeline = 4, .tensor = 2},
                     .schedule = ScheduleKind::kZeroBubbleH1,
                     .recompute = RecomputeMode::kSelective};
  for (const std::string name : {"gpt2", "llama"})
    for (const Layout& layout : {three, four, split}) expect_golden(name, layout);
  expect_golden("mlp", {.mesh = {.data = 2, .pipeline = 2, .tensor = 2}, .micro = 2});
}

// Adapters of peft's own layers, rslora and plain, of projections apart and of c_attn.
TEST(Golden, AdaptersOfPeft) {
  for (const std::string name : {"gpt2", "llama"}) {
    SCOPED_TRACE(name);
    const Golden golden = read_lora_golden(name);
    expect_golden(golden, {});
    expect_golden(golden, {.mesh = {.data = 3, .tensor = 2}, .sequence_parallel = true});
    expect_golden(golden,
                  {.mesh = {.pipeline = 2, .tensor = 4}, .recompute = RecomputeMode::kSelective});
  }
}

}  // namespace
}  // namespace trireme::golden
