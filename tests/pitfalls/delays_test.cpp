// P12: a buffer that is used again or freed before its collective or its transfer ended.
// Collectives and transfers end late and in many seeded orders, over tiny units and tiny tiles: the
// bits are those of a run that waits for everything at once.
#include <gtest/gtest.h>

#include <atomic>

#include "framework/base/error.h"
#include "tests/offload/slow_files.h"
#include "tests/pitfalls/curves.h"
#include "tests/support/slow_communicator.h"

namespace trireme::pitfalls {
namespace {

using parity::Curve;
using parity::tiny_gpt2;

constexpr OffloadTiers kTinyTiles{.optimizer = Tier::kDisk,
                                  .gradients = Tier::kDisk,
                                  .parameters = Tier::kDisk,
                                  .activations = Tier::kDisk,
                                  .tile = 64,
                                  .buffers = 3};

ModelOptions tiny_units() {
  ModelOptions model = tiny_gpt2();
  model.layers = 3;
  model.hidden = 8;
  model.heads = model.kv_heads = 2;
  model.ffn = 8;
  return model;
}

void expect_same_bits_under_delays(Task task, Layout layout, int seeds) {
  layout.overlap = false;
  const Curve quiet = parity::train(task, layout);
  layout.overlap = true;
  for (int seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(join("seed ", seed, ", ", text_of(layout)));
    std::atomic<std::uint64_t> ranks{0};
    task.network = [seed](Communicator& world) {
      return std::make_unique<test::SlowCommunicator>(world, static_cast<std::uint64_t>(seed));
    };
    task.files = [seed, &ranks] {
      return std::make_unique<test::SlowFiles>(static_cast<std::uint64_t>(100 * seed) + ranks++);
    };
    const Curve slow = parity::train(task, layout);
    EXPECT_EQ(slow.losses, quiet.losses);
    EXPECT_EQ(slow.norms, quiet.norms);
    EXPECT_EQ(slow.weights, quiet.weights);
    EXPECT_EQ(slow.validation, quiet.validation);
  }
}

TEST(ZeroPitfall, P12_DelaysChangeNoBitAtAnyStage) {
  const Task task{.model = tiny_units(), .global_batch = 4, .steps = 5};
  for (int stage = 0; stage <= 3; ++stage)
    expect_same_bits_under_delays(task, {.mesh = {.data = 2}, .zero_stage = stage}, 3);
}

TEST(ZeroPitfall, P12_DelaysChangeNoBitWithEverythingOnDisk) {
  Task task{.model = tiny_units(), .global_batch = 4, .steps = 5};
  task.model.dropout = 0.1;
  for (const Reshard reshard : {Reshard::kForward, Reshard::kBackward, Reshard::kStep})
    expect_same_bits_under_delays(task,
                                  {.mesh = {.data = 2},
                                   .recompute = RecomputeMode::kFull,
                                   .zero_stage = 3,
                                   .reshard = reshard,
                                   .offload = kTinyTiles},
                                  3);
}

TEST(ZeroPitfall, P12_DelaysChangeNoBitUnderPipelinesAndReplicas) {
  const Task task{.model = tiny_units(), .global_batch = 8, .steps = 5, .compute = DType::kBF16};
  expect_same_bits_under_delays(
      task,
      {.mesh = {.data = 2, .pipeline = 2},
       .schedule = ScheduleKind::kZeroBubbleH1,
       .zero_stage = 2,
       .offload = {.optimizer = Tier::kDisk, .gradients = Tier::kHost, .tile = 64, .buffers = 3}},
      2);
  expect_same_bits_under_delays(task,
                                {.mesh = {.data = 4},
                                 .recompute = RecomputeMode::kSelective,
                                 .zero_stage = 3,
                                 .shard_ranks = 2,
                                 .offload = {.parameters = Tier::kDisk, .tile = 64, .buffers = 3}},
                                2);
}

}  // namespace
}  // namespace trireme::pitfalls
