// Whole training steps, evaluation and sampling on a backend whose memory only Backend and
// Communicator calls may touch, and whose new memory is NaN: what works here does not rely on
// device memory being ordinary memory, nor on it being zero.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/parity/train_layout.h"
#include "tests/support/guarded_backend.h"

namespace trireme::parity {
namespace {

const std::vector<std::pair<std::string, ModelOptions>> kFamilies = {
    {"gpt2", tiny_gpt2()}, {"llama", tiny_llama(2)}, {"mlp", tiny_mlp()}};

Task guarded_task(const ModelOptions& model) {
  Task task{.model = model, .global_batch = 4, .steps = 2, .backend = test::make_guarded_backend};
  task.model.dropout = 0.1;
  return task;
}

// Guarded and reference are the same loops: any difference would be a value read before it was
// written.
void expect_same_as_reference(Task task, const Layout& layout) {
  SCOPED_TRACE(text_of(layout));
  const Curve guarded = train(task, layout);
  task.backend = make_reference_backend;
  const Curve reference = train(task, layout);
  EXPECT_TRUE(std::isfinite(guarded.losses.back()));
  EXPECT_EQ(guarded.losses, reference.losses);
  EXPECT_EQ(guarded.norms, reference.norms);
  EXPECT_EQ(guarded.validation, reference.validation);
  EXPECT_EQ(guarded.gradients, reference.gradients);
  EXPECT_EQ(guarded.weights, reference.weights);
}

// One rank: nobody else's call can hide a stray access.
TEST(Guarded, OneRank) {
  for (const auto& [name, model] : kFamilies)
    for (RecomputeMode mode :
         {RecomputeMode::kNone, RecomputeMode::kFull, RecomputeMode::kSelective}) {
      SCOPED_TRACE(name);
      expect_same_as_reference(guarded_task(model), {.recompute = mode});
      expect_same_as_reference(
          guarded_task(model),
          {.schedule = ScheduleKind::kZeroBubbleH1, .micro = 3, .recompute = mode});
    }
}

TEST(Guarded, Cube) {
  for (const auto& [name, model] : kFamilies)
    for (RecomputeMode mode : {RecomputeMode::kFull, RecomputeMode::kSelective}) {
      SCOPED_TRACE(name);
      const MeshShape cube{.data = 2, .pipeline = 2, .tensor = 2};
      expect_same_as_reference(guarded_task(model), {.mesh = cube, .recompute = mode});
      if (model.family == Family::kDecoder)
        expect_same_as_reference(guarded_task(model), {.mesh = cube,
                                                       .schedule = ScheduleKind::kZeroBubbleH1,
                                                       .sequence_parallel = true,
                                                       .recompute = mode});
    }
}

// The paths that only a bad step takes.
TEST(Guarded, ASkippedStep) {
  const Task task = guarded_task(tiny_gpt2());
  const SampleSource source = random_samples(task.model, task.seed);
  for (const MeshShape& mesh : {MeshShape{}, MeshShape{.pipeline = 2, .tensor = 2}})
    run_layout(task, {.mesh = mesh}, [&](Rank& rank) {
      rank.engine.kept().load_values([](const Section&, std::int64_t, std::span<double> values) {
        std::fill(values.begin(), values.end(), NAN);
      });
      const StepResult result = rank.engine.train(0, source).optimizer;
      EXPECT_TRUE(result.skipped);
      EXPECT_EQ(result.bad_parameter, "embedding.table");
    });
}

TEST(Guarded, NarrowTypesAndSampling) {
  for (DType compute : {DType::kF32, DType::kBF16}) {
    Task task = guarded_task(tiny_llama(2));
    task.compute = compute;
    const SampleSource source = random_samples(task.model, task.seed);
    run_layout(task, {}, [&](Rank& rank) {
      EXPECT_TRUE(std::isfinite(rank.engine.train(0, source).loss));
      for (double logit : rank.engine.next_logits({1, 2, 3})) EXPECT_TRUE(std::isfinite(logit));
    });
  }
}

}  // namespace
}  // namespace trireme::parity
