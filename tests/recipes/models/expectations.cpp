#include "tests/recipes/models/expectations.h"

#include <gtest/gtest.h>

namespace trireme::parity {

std::vector<Layout> some_layouts(const ModelOptions& model) {
  std::vector<Layout> all = {
      {.mesh = kCube},
      {.mesh = {.data = 2, .tensor = 4}, .micro = 2, .sequence_parallel = true},
      {.mesh = {.pipeline = 3, .tensor = 2},
       .schedule = ScheduleKind::kZeroBubbleH1,
       .recompute = RecomputeMode::kFull},
      {.mesh = {.data = 3, .pipeline = 2},
       .schedule = ScheduleKind::kInterleaved,
       .chunks = 2,
       .micro = 2,
       .recompute = RecomputeMode::kSelective}};
  if (model.family == Family::kMlp)
    std::erase_if(all, [](const Layout& layout) { return layout.sequence_parallel; });
  return all;
}

Task f32_task(const ModelOptions& model) {
  Task task{.model = model,
            .optimizer = {.kind = OptimizerKind::kSgd, .momentum = 0.9},
            .compute = DType::kF32};
  task.model.dropout = 0.1;
  return task;
}

void expect_f32_parity(const Task& task) {
  const Curve serial = train(task, {});
  for (const Layout& layout : some_layouts(task.model)) {
    SCOPED_TRACE(text_of(layout));
    const Curve curve = train(task, layout);
    EXPECT_LE(distance(serial, curve), 1e-5);
    EXPECT_LE(distance(serial.gradients, curve.gradients), 1e-5);
    EXPECT_LE(distance(serial.weights, curve.weights), 1e-5);
  }
}

namespace {

// Losses of a batch that comes again and again: there is something to learn.
std::vector<double> repeated_losses(const Task& task, const Layout& layout) {
  std::vector<double> losses;
  const SampleSource all = random_samples(task.model, task.seed);
  const SampleSource same = [&](std::int64_t first, std::int64_t count,
                                std::vector<std::int32_t>& ids, std::vector<std::int32_t>& labels) {
    all(first % task.global_batch, count, ids, labels);
  };
  run_layout(task, layout, [&](Rank& rank) {
    for (int step = 0; step < task.steps; ++step) {
      const double loss = rank.engine.train(step, same).loss;
      if (rank.first()) losses.push_back(loss);
    }
  });
  return losses;
}

}  // namespace

void expect_narrow_parity(Task task, DType narrow) {
  task.steps = 50;
  task.global_batch = 4;
  task.lr_shape = LrShape::kConstant;
  task.lr = 1e-3;  // falls steadily; on the edge of stability any rounding grows
  Task exact = task;
  exact.compute = DType::kF64;
  task.compute = narrow;
  if (narrow == DType::kF16) task.loss_scale = {.dynamic = true, .initial = 4096, .window = 20};
  exact.backend = make_reference_backend;
  const std::vector<double> f64 = repeated_losses(exact, {});
  EXPECT_LT(f64.back(), 0.9 * f64.front());
  for (const Layout& layout : {Layout{}, Layout{.mesh = kCube}}) {
    SCOPED_TRACE(text_of(layout));
    const std::vector<double> losses = repeated_losses(task, layout);
    ASSERT_EQ(losses.size(), f64.size());
    for (std::size_t i = 0; i < f64.size(); ++i)
      EXPECT_NEAR(losses[i], f64[i], 0.01 * f64[i]) << "step " << i;
  }
}

}  // namespace trireme::parity
