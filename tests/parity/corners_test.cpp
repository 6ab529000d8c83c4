// Combinations that a user may choose and that no list of single axes reaches: each trains like the
// serial run.
#include <gtest/gtest.h>

#include <cctype>

#include "framework/base/error.h"
#include "tests/parity/train_layout.h"
#include "tests/support/faulty_files.h"
#include "tests/support/tensors.h"

namespace trireme::parity {
namespace {

constexpr double kTolerance = 1e-12;
constexpr OffloadTiers kAllOnDisk{
    .optimizer = Tier::kDisk, .gradients = Tier::kDisk, .parameters = Tier::kDisk, .tile = 211};

OffloadTiers with_activations(OffloadTiers tiers, Tier activations) {
  tiers.activations = activations;
  return tiers;
}

void expect_like_serial(const Task& task, const Layout& layout) {
  SCOPED_TRACE(text_of(layout));
  const Curve serial = train(task, {.micro = task.global_batch});
  EXPECT_NE(serial.losses.back(), serial.losses.front());
  const Curve curve = train(task, layout);
  EXPECT_LE(distance(serial, curve), kTolerance);
  EXPECT_LE(distance(serial.weights, curve.weights), kTolerance);
}

TEST(ParityCorner, ZeroBubbleSelectiveHybridAndEverythingOnDisk) {
  Task task{.model = tiny_gpt2(), .steps = 2};
  task.model.dropout = 0.1;
  for (const Reshard reshard : {Reshard::kForward, Reshard::kBackward, Reshard::kStep})
    expect_like_serial(task, {.mesh = {.data = 4, .pipeline = 2},
                              .schedule = ScheduleKind::kZeroBubbleH1,
                              .recompute = RecomputeMode::kSelective,
                              .zero_stage = 3,
                              .shard_ranks = 2,
                              .reshard = reshard,
                              .offload = kAllOnDisk});
}

// Gradients that stay whole, away from the device, of a tied table whose micro-batches overlap.
TEST(ParityCorner, WholeGradientsElsewhereUnderSplitBackward) {
  const Task task{.model = tiny_gpt2(), .steps = 2};
  for (const Tier tier : {Tier::kHost, Tier::kDisk})
    for (const int pipeline : {1, 2})
      expect_like_serial(task, {.mesh = {.data = 2, .pipeline = pipeline},
                                .schedule = ScheduleKind::kZeroBubbleH1,
                                .zero_stage = 1,
                                .shard_ranks = pipeline,
                                .offload = {.gradients = tier, .tile = 97}});
}

// Row 13 of the inference list: SmolLM2's 9 query heads of 3 key/value heads, cut and replicated.
TEST(ParityCorner, NineQueryHeadsOfThreeKeyHeads) {
  Task task{.model = tiny_qwen(3), .steps = 2};
  task.model.heads = 9;
  task.model.ffn = 36;
  for (const int tensor : {3, 9})
    expect_like_serial(task, {.mesh = {.tensor = tensor}, .micro = 6});
  EXPECT_NE(
      testing::sentence_of([&] { train(task, {.mesh = {.tensor = 2}}); }).find("use 1, 3 or 9"),
      std::string::npos);
}

// Norms of heads in all mixtures of trained and frozen, beside trained and frozen projections.
TEST(ParityCorner, FrozenNormsOfHeads) {
  for (const std::string part : {"q_norm", "k_norm", "qkv"}) {
    Task task{.model = tiny_qwen(1), .steps = 2};
    task.frozen = [part](const std::string& name) { return name.find(part) != std::string::npos; };
    for (const bool sequence : {false, true})
      expect_like_serial(task, {.mesh = {.data = 2, .tensor = 2},
                                .micro = 2,
                                .sequence_parallel = sequence,
                                .zero_stage = 2});
  }
}

TEST(ParityCorner, UnevenLastMicroBatch) {
  const Task task{.model = tiny_llama(2), .global_batch = 10, .steps = 2};
  for (int stage = 1; stage <= 3; ++stage)
    for (const ScheduleKind schedule : {ScheduleKind::kOneFOneB, ScheduleKind::kZeroBubbleH1}) {
      OffloadTiers tiers = kAllOnDisk;
      if (stage < 3) tiers.parameters = Tier::kDevice;
      expect_like_serial(task, {.mesh = {.data = 2, .pipeline = 2},
                                .schedule = schedule,
                                .micro = 2,  // 2, 2 and 1
                                .recompute = RecomputeMode::kFull,
                                .zero_stage = stage,
                                .offload = with_activations(tiers, Tier::kDisk)});
    }
}

TEST(ParityCorner, FrozenParametersRecomputedAtEveryStage) {
  Task task{.model = tiny_llama(2), .global_batch = 4, .steps = 2};
  task.model.tie_embeddings = false;
  for (const char* layer : {"layers.0.", "layers.2."}) {
    task.frozen = [layer](const std::string& name) {
      return name == "embedding.table" || name.starts_with(layer);
    };
    for (int stage = 1; stage <= 3; ++stage) {
      OffloadTiers tiers = kAllOnDisk;
      if (stage < 3) tiers.parameters = Tier::kDevice;
      for (const int every : {1, 3})
        expect_like_serial(task, {.mesh = {.data = 2, .pipeline = every == 1 ? 2 : 1},
                                  .recompute = RecomputeMode::kFull,
                                  .recompute_every = every,
                                  .zero_stage = stage,
                                  .offload = with_activations(tiers, Tier::kHost)});
    }
  }
}

// Nothing to keep but the weights: a store without arrays.
TEST(ParityCorner, PlainSgdWithStatesElsewhere) {
  Task task{.model = tiny_gpt2(), .global_batch = 4, .steps = 2};
  task.optimizer = {.kind = OptimizerKind::kSgd};
  for (int stage = 1; stage <= 3; ++stage)
    for (const Tier tier : {Tier::kHost, Tier::kDisk})
      expect_like_serial(
          task, {.mesh = {.data = 2}, .zero_stage = stage, .offload = {.optimizer = tier}});
}

TEST(ParityCorner, ClassifierWithEverythingElsewhere) {
  const Task task{.model = tiny_mlp(), .steps = 2};
  for (const Tier tier : {Tier::kHost, Tier::kDisk})
    expect_like_serial(task, {.mesh = {.data = 2, .pipeline = 2, .tensor = 2},
                              .recompute = RecomputeMode::kFull,
                              .zero_stage = 3,
                              .partition_activations = true,
                              .offload = {tier, tier, tier, tier, 97}});
}

TEST(ParityCorner, KvReplicasWithEverythingElsewhere) {
  for (const int kv_heads : {1, 2}) {
    const Task task{.model = tiny_llama(kv_heads), .global_batch = 4, .steps = 2};
    for (const Tier tier : {Tier::kHost, Tier::kDisk})
      expect_like_serial(task, {.mesh = {.data = 2, .tensor = 4},
                                .sequence_parallel = tier == Tier::kDisk,
                                .zero_stage = 3,
                                .offload = {tier, tier, tier, Tier::kDevice, 97}});
  }
}

// Logits and losses between steps, with weights that are gathered from a disk for them, leave
// nothing behind: the next step trains as if nobody had looked.
TEST(ParityCorner, EvaluationAndSamplingBetweenSteps) {
  const Task task{.model = tiny_gpt2(), .global_batch = 4};
  const SampleSource source = random_samples(task.model, task.seed);
  const auto seen = [&](const Layout& layout) {
    std::vector<double> all;
    run_layout(task, layout, [&](Rank& rank) {
      for (int step = 0; step < 3; ++step) {
        const double loss = rank.engine.train(step, source).loss;
        const double validation = rank.engine.evaluate(1 + 2 * step, source);
        for (const std::int64_t length : {1, 5, 8}) {
          const std::vector<std::int32_t> prompt(static_cast<std::size_t>(length), 3);
          const std::vector<double> logits = rank.engine.next_logits(prompt);
          const bool tells = rank.mesh.coord().data == 0 && rank.mesh.coord().tensor == 0;
          if (tells && !logits.empty()) all.insert(all.end(), logits.begin(), logits.end());
        }
        if (rank.first() && rank.mesh.shape().pipeline == 1)
          all.insert(all.end(), {loss, validation});
      }
    });
    return all;
  };
  for (const int pipeline : {1, 2}) {
    const std::vector<double> serial = seen({.mesh = {.pipeline = pipeline}});
    for (const Reshard reshard : {Reshard::kForward, Reshard::kBackward, Reshard::kStep}) {
      const Layout layout{.mesh = {.data = 2, .pipeline = pipeline},
                          .zero_stage = 3,
                          .reshard = reshard,
                          .offload = kAllOnDisk};
      SCOPED_TRACE(text_of(layout));
      EXPECT_TRUE(test::close(seen(layout), serial, 1e-12));
    }
  }
}

// The bound that the refusal names is legal, and one element less is not: in every reshard mode,
// with segments, tied tables, evaluation and sampling inside the same bound.
TEST(ParityCorner, TheSmallestBoundOfLiveParameters) {
  const Task task{.model = tiny_gpt2(), .global_batch = 4, .steps = 2};
  for (const Reshard reshard : {Reshard::kForward, Reshard::kBackward, Reshard::kStep})
    for (const RecomputeMode recompute : {RecomputeMode::kNone, RecomputeMode::kFull}) {
      Layout layout{.mesh = {.data = 2},
                    .recompute = recompute,
                    .recompute_every = recompute == RecomputeMode::kFull ? 2 : 1,
                    .zero_stage = 3,
                    .reshard = reshard,
                    .max_live = 1,
                    .offload = kAllOnDisk};
      SCOPED_TRACE(text_of(layout));
      const std::string refusal = testing::sentence_of([&] { train(task, layout); });
      std::int64_t smallest = 0;  // the largest number in it
      for (std::size_t i = 0; i < refusal.size(); ++i)
        if (std::isdigit(static_cast<unsigned char>(refusal[i])))
          smallest = std::max<std::int64_t>(smallest, std::stoll(refusal.substr(i)));
      ASSERT_GT(smallest, 100) << refusal;
      layout.max_live = smallest - 1;
      EXPECT_NE(testing::sentence_of([&] { train(task, layout); }), "");
      layout.max_live = smallest;
      expect_like_serial(task, layout);
      run_layout(task, layout, [](Rank& rank) { rank.engine.next_logits({1, 2, 3}); });
    }
}

}  // namespace
}  // namespace trireme::parity
