// Every layout trains like the serial run (f64, 1e-12): the promise the project stands on.
//
// Full over mesh x schedule; the other axes pairwise, from one generated list.
#include <gtest/gtest.h>

#include <map>

#include "tests/parity/pairwise.h"
#include "tests/parity/train_layout.h"

namespace trireme::parity {
namespace {

constexpr double kTolerance = 1e-12;

void expect_parity(const Task& task, const Curve& serial, const Layout& layout) {
  SCOPED_TRACE(text_of(layout));
  const Curve curve = train(task, layout);
  EXPECT_LE(distance(serial, curve), kTolerance);
  if (layout.zero_stage == 0) {  // later stages reduce onto shards
    EXPECT_LE(distance(serial.gradients, curve.gradients), kTolerance);
  }
  EXPECT_LE(distance(serial.weights, curve.weights), kTolerance);
}

constexpr int kListEntries = 6;  // embedding, 4 layers, head
constexpr std::int64_t kBatch = 12;

bool legal(const Layout& l) {
  const std::int64_t share = kBatch / l.mesh.data, m = (share + l.micro - 1) / l.micro;
  if (kBatch % l.mesh.data != 0 || l.mesh.pipeline * l.chunks > kListEntries) return false;
  if (l.schedule == ScheduleKind::kInterleaved) return l.chunks > 1 && m % l.mesh.pipeline == 0;
  return l.chunks == 1;
}

// Every mesh with a product of at most 8, every schedule that it allows, with the micro-batch size
// that makes it legal.
std::vector<Layout> mesh_and_schedules() {
  std::vector<Layout> all;
  for (int data : {1, 2, 3, 4, 6})
    for (int tensor : {1, 2, 4})
      for (int pipeline = 1; pipeline <= 6; ++pipeline)
        for (ScheduleKind schedule : {ScheduleKind::kGPipe, ScheduleKind::kOneFOneB,
                                      ScheduleKind::kInterleaved, ScheduleKind::kZeroBubbleH1}) {
          if (data * tensor * pipeline > 8) continue;
          Layout layout{.mesh = {.data = data, .pipeline = pipeline, .tensor = tensor},
                        .schedule = schedule};
          layout.chunks = schedule == ScheduleKind::kInterleaved ? 2 : 1;
          while (!legal(layout) && layout.micro < 4) ++layout.micro;
          if (legal(layout)) all.push_back(layout);
        }
  return all;
}

TEST(Parity, EveryMeshUnderEverySchedule) {
  Task task{.model = tiny_llama(2)};
  task.model.dropout = 0.1;
  const Curve serial = train(task, {});
  EXPECT_NE(serial.losses.back(), serial.losses.front());  // it moves, or nothing is compared
  const std::vector<Layout> layouts = mesh_and_schedules();
  EXPECT_EQ(layouts.size(), 99U);
  for (const Layout& layout : layouts) expect_parity(task, serial, layout);
}

TEST(Parity, EveryZeroStageUnderEveryMeshWithDataRanks) {
  Task task{.model = tiny_gpt2()};
  task.model.dropout = 0.1;
  task.steps = 2;
  const Curve serial = train(task, {});
  int runs = 0;
  for (Layout layout : mesh_and_schedules())
    for (int stage = 1; stage <= 3 && layout.mesh.data > 1; ++stage, ++runs) {
      layout.zero_stage = stage;
      expect_parity(task, serial, layout);
    }
  EXPECT_GT(runs, 120);
}

// One micro-batch a step: every stage has the same bits, in every number that a run shows.
TEST(Parity, ZeroStagesHaveTheSameBitsAtOneMicroBatch) {
  for (const ModelOptions& model : {tiny_gpt2(), tiny_llama(1), tiny_mlp()})
    for (Layout layout : {Layout{.mesh = {.data = 2}}, Layout{.mesh = {.data = 3, .tensor = 2}},
                          Layout{.mesh = {.data = 2, .pipeline = 2, .tensor = 2},
                          .recompute = RecomputeMode::kFull},
                          Layout{.mesh = {.data = 4}, .recompute = RecomputeMode::kSelective}}) {
      layout.micro = kBatch / layout.mesh.data;
      SCOPED_TRACE(text_of(layout));
      const Task task{.model = model};
      const Curve whole = train(task, layout);
      for (layout.zero_stage = 1; layout.zero_stage <= 3; ++layout.zero_stage) {
        const Curve curve = train(task, layout);
        EXPECT_EQ(curve.losses, whole.losses);
        EXPECT_EQ(curve.norms, whole.norms);
        EXPECT_EQ(curve.weights, whole.weights);
        EXPECT_EQ(curve.validation, whole.validation);
      }
    }
}

constexpr Tier kDevice = Tier::kDevice, kHost = Tier::kHost, kDisk = Tier::kDisk;

// Every legal place of optimizer states, gradients and weights at a stage.
std::vector<OffloadTiers> tiers_of(int stage) {
  std::vector<OffloadTiers> all;
  for (const Tier optimizer : {kDevice, kHost, kDisk})
    for (const Tier gradients : {kDevice, kHost, kDisk})
      for (const Tier parameters : {kDevice, kHost, kDisk})
        if ((stage > 0 || optimizer == gradients) && (stage > 0 || optimizer == kDevice) &&
            (stage == 3 || parameters == kDevice))
          all.push_back({.optimizer = optimizer,
                         .gradients = gradients,
                         .parameters = parameters,
                         .tile = 150 + 977 * (std::ssize(all) % 4)});
  return all;
}

// One micro-batch a step: every stage with everything anywhere has the same bits, in every number
// that a run shows. 16-bit weights beside masters, and weights that are their own masters.
TEST(Parity, OffloadChangesNoBitAtOneMicroBatch) {
  for (const DType compute : {DType::kF64, DType::kBF16}) {
    const Task task{.model = tiny_gpt2(), .steps = 2, .compute = compute};
    Layout layout{.mesh = {.data = 2}, .micro = kBatch / 2};
    const Curve whole = train(task, layout);
    int runs = 0;
    for (layout.zero_stage = 1; layout.zero_stage <= 3; ++layout.zero_stage)
      for (const OffloadTiers& tiers : tiers_of(layout.zero_stage)) {
        layout.offload = tiers;
        SCOPED_TRACE(text_of(layout));
        const Curve curve = train(task, layout);
        EXPECT_EQ(curve.losses, whole.losses);
        EXPECT_EQ(curve.norms, whole.norms);
        EXPECT_EQ(curve.weights, whole.weights);
        EXPECT_EQ(curve.validation, whole.validation);
        ++runs;
      }
    EXPECT_EQ(runs, 9 + 9 + 27);
  }
}

// When weights are let go, fetched ahead or bounded changes no bit; neither does waiting for every
// collective at once.
TEST(Parity, ReshardPrefetchAndOverlapChangeNoBit) {
  for (const ScheduleKind schedule : {ScheduleKind::kOneFOneB, ScheduleKind::kZeroBubbleH1}) {
    const Task task{.model = tiny_gpt2(), .steps = 2};
    Layout layout{.mesh = {.data = 2, .pipeline = 2},
                  .schedule = schedule,
                  .micro = 2,
                  .recompute = RecomputeMode::kFull,
                  .recompute_every = 2,
                  .zero_stage = 3};
    const Curve first = train(task, layout);
    for (const Reshard reshard : {Reshard::kForward, Reshard::kBackward, Reshard::kStep})
      for (const bool overlap : {true, false})
        for (const std::int64_t bound : {std::int64_t{0}, std::int64_t{20000}}) {
          layout.reshard = reshard;
          layout.overlap = overlap;
          layout.max_live = bound;
          SCOPED_TRACE(text_of(layout));
          const Curve curve = train(task, layout);
          EXPECT_EQ(curve.losses, first.losses);
          EXPECT_EQ(curve.weights, first.weights);
          EXPECT_EQ(curve.validation, first.validation);
        }
  }
}

// Hybrid sharding adds up in two levels: other roundings, the same numbers.
TEST(Parity, HybridShardingAtEveryStage) {
  const Task task{.model = tiny_llama(2), .steps = 2};
  const Curve serial = train(task, {});
  for (const MeshShape mesh : {MeshShape{.data = 4}, MeshShape{.data = 4, .tensor = 2},
                               MeshShape{.data = 6}, MeshShape{.data = 4, .pipeline = 2}})
    for (const int shards : {1, 2, 3})
      for (int stage = 1; stage <= 3; ++stage) {
        if (mesh.data % shards != 0) continue;
        Layout layout{.mesh = mesh, .zero_stage = stage, .shard_ranks = shards};
        if (stage == 3) layout.offload = {.optimizer = kDisk, .gradients = kHost, .tile = 50};
        expect_parity(task, serial, layout);
      }
}

// Kept inputs on the host, on disk, and cut over tensor ranks come back with the same bits.
TEST(Parity, ActivationsElsewhereChangeNoBit) {
  const Task task{.model = tiny_gpt2(), .steps = 2};
  for (const ScheduleKind schedule : {ScheduleKind::kGPipe, ScheduleKind::kInterleaved}) {
    Layout layout{.mesh = {.pipeline = 2, .tensor = 2},
                  .schedule = schedule,
                  .chunks = schedule == ScheduleKind::kInterleaved ? 2 : 1,
                  .micro = 3,
                  .recompute = RecomputeMode::kFull};
    const Curve kept = train(task, layout);
    for (const Tier tier : {kDevice, kHost, kDisk})
      for (const bool partitioned : {false, true}) {
        layout.offload.activations = tier;
        layout.partition_activations = partitioned;
        SCOPED_TRACE(text_of(layout));
        const Curve curve = train(task, layout);
        EXPECT_EQ(curve.losses, kept.losses);
        EXPECT_EQ(curve.weights, kept.weights);
      }
  }
}

// The other axes; values are indices into these.
const std::vector<MeshShape> kMeshes = {{},
                                        {.data = 2},
                                        {.tensor = 2},
                                        {.tensor = 4},
                                        {.pipeline = 2},
                                        {.pipeline = 3},
                                        {.data = 2, .pipeline = 2, .tensor = 2},
                                        {.data = 3, .tensor = 2},
                                        {.pipeline = 2, .tensor = 4}};
ModelOptions gpt2_of_longer_context() {
  ModelOptions o = tiny_gpt2();
  o.positions = o.sequence + 3;
  return o;
}
const std::vector<ModelOptions> kModels = {tiny_gpt2(),   tiny_llama(1), tiny_llama(2),
                                           tiny_llama(4), tiny_mlp(),    tiny_qwen(1),
                                           tiny_qwen(2),  tiny_gemma(),  gpt2_of_longer_context()};
const std::vector<ScheduleKind> kSchedules = {ScheduleKind::kGPipe, ScheduleKind::kOneFOneB,
                                              ScheduleKind::kInterleaved,
                                              ScheduleKind::kZeroBubbleH1};
const std::vector<std::pair<RecomputeMode, int>> kRecompute = {{RecomputeMode::kNone, 1},
                                                               {RecomputeMode::kFull, 1},
                                                               {RecomputeMode::kFull, 3},
                                                               {RecomputeMode::kSelective, 1}};
enum Axis {
  kStage,
  kMesh,
  kModel,
  kSchedule,
  kRecomputation,
  kMicro,
  kSequence,
  kDropout,
  kTied,
  kSmoothing,
  kSgd,
  kOffload,
  kActivations,
  kResharding,
  kShards,
  kPartition,
  kDocuments
};
const std::vector<int> kSizes = {4,
                                 static_cast<int>(kMeshes.size()),
                                 static_cast<int>(kModels.size()),
                                 4,
                                 4,
                                 5,
                                 2,
                                 2,
                                 2,
                                 2,
                                 2,
                                 27,
                                 3,
                                 3,
                                 2,
                                 2,
                                 2};

// The smallest group of more than one rank.
int layout_shards(int data) { return data % 2 == 0 ? 2 : data; }

Layout layout_of(const Combination& c) {
  const auto at = [&](Axis axis) { return static_cast<std::size_t>(c[axis]); };
  Layout layout{.mesh = kMeshes[at(kMesh)],
                .schedule = kSchedules[at(kSchedule)],
                .micro = c[kMicro] + 1,
                .sequence_parallel = c[kSequence] == 1,
                .recompute = kRecompute[at(kRecomputation)].first,
                .recompute_every = kRecompute[at(kRecomputation)].second,
                .zero_stage = c[kStage],
                .shard_ranks = c[kShards] == 1 ? layout_shards(kMeshes[at(kMesh)].data) : 0,
                .reshard = static_cast<Reshard>(c[kResharding]),
                .partition_activations = c[kPartition] == 1};
  const auto tier = [](int digit) { return static_cast<Tier>(digit % 3); };
  layout.offload = {.optimizer = tier(c[kOffload]),
                    .gradients = tier(c[kOffload] / 3),
                    .parameters = tier(c[kOffload] / 9),
                    .activations = tier(c[kActivations]),
                    .tile = 997};
  layout.chunks = layout.schedule == ScheduleKind::kInterleaved ? 2 : 1;
  return layout;
}

Task task_of(const Combination& c) {
  Task task{.model = kModels[static_cast<std::size_t>(c[kModel])]};
  task.model.dropout = c[kDropout] == 1 ? 0.1 : 0.0;
  task.documents = c[kDocuments] == 1;
  task.model.tie_embeddings = c[kTied] == 1;
  task.label_smoothing = c[kSmoothing] == 1 ? 0.1 : 0.0;
  if (c[kSgd] == 1)
    task.optimizer = {.kind = OptimizerKind::kSgd, .momentum = 0.9, .weight_decay = 0.01};
  return task;
}

bool legal_combination(const Combination& c) {
  const bool mlp = kModels[static_cast<std::size_t>(c[kModel])].family == Family::kMlp;
  if (mlp && (c[kSequence] == 1 || c[kTied] == 1 || c[kDocuments] == 1)) return false;
  const Layout layout = layout_of(c);
  if (layout.zero_stage == 0 && (c[kOffload] > 0 || c[kShards] == 1)) return false;
  if (layout.zero_stage < 3 && (c[kOffload] >= 9 || c[kResharding] > 0)) return false;
  const bool full = layout.recompute == RecomputeMode::kFull;
  if (!full && (c[kActivations] > 0 || c[kPartition] == 1)) return false;
  if (c[kPartition] == 1 && (c[kSequence] == 1 || layout.mesh.tensor == 1)) return false;
  return legal(layout);
}

TEST(Parity, OtherAxesPairwise) {
  const std::vector<Combination> combinations = pairwise(kSizes, legal_combination);
  EXPECT_GT(combinations.size(), 40U);
  std::map<Combination, Curve> serial;  // by what defines the task
  for (const Combination& c : combinations) {
    const Task task = task_of(c);
    const Combination key = {c[kModel],     c[kDropout], c[kTied],
                             c[kSmoothing], c[kSgd],     c[kDocuments]};
    if (!serial.contains(key)) serial[key] = train(task, {});
    expect_parity(task, serial[key], layout_of(c));
  }
}

}  // namespace
}  // namespace trireme::parity
