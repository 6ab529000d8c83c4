// Whole training runs on the cpu backend: between layouts, against the reference, and again.
#include <gtest/gtest.h>

#include "tests/recipes/models/expectations.h"

namespace trireme::parity {
namespace {

std::unique_ptr<Backend> one_thread(std::shared_ptr<MemoryLedger> ledger) {
  return make_cpu_backend(std::move(ledger), 1);
}

TEST(F32Parity, Cpu) {
  for (const ModelOptions& model : {tiny_gpt2(), tiny_llama(2), tiny_mlp()}) {
    Task task = f32_task(model);
    task.backend = one_thread;
    expect_f32_parity(task);
    Task reference = f32_task(model);
    const Curve expected = train(reference, {}), got = train(task, {});
    EXPECT_LE(distance(expected, got), 1e-5);
    EXPECT_LE(distance(expected.gradients, got.gradients), 1e-5);
    EXPECT_LE(distance(expected.weights, got.weights), 1e-5);
  }
}

TEST(NarrowParity, Cpu) {
  for (const ModelOptions& model : {tiny_gpt2(), tiny_llama(2), tiny_mlp()})
    for (DType narrow : {DType::kBF16, DType::kF16})
      expect_narrow_parity({.model = model, .backend = one_thread}, narrow);
}

TEST(Determinism, CpuTheSameLayoutHasTheSameBits) {
  Task task{.model = tiny_llama(1), .steps = 5, .compute = DType::kF32, .backend = one_thread};
  task.model.dropout = 0.1;
  for (const Layout& layout : some_layouts(task.model)) {
    SCOPED_TRACE(text_of(layout));
    const Curve once = train(task, layout), again = train(task, layout);
    EXPECT_EQ(once.losses, again.losses);
    EXPECT_EQ(once.norms, again.norms);
    EXPECT_EQ(once.weights, again.weights);
  }
}

TEST(Determinism, CpuReplicasAreEqualAfterFiveStepsWithDropout) {
  for (DType compute : {DType::kF32, DType::kBF16, DType::kF16}) {
    Task task{.model = tiny_gpt2(), .steps = 5, .compute = compute, .backend = one_thread};
    task.model.dropout = 0.1;
    for (bool sequence_parallel : {false, true})
      EXPECT_FALSE(
          train(task, {.mesh = kCube, .sequence_parallel = sequence_parallel}).weights.empty());
  }
}

}  // namespace
}  // namespace trireme::parity
