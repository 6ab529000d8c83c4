// The forecast of a rank against a real run of it: every kind that is called exact has the run's
// bytes, between steps and at the peak, under every kind of layout.
#include "recipes/memory/forecast.h"

#include <gtest/gtest.h>

#include <mutex>

#include "framework/base/error.h"
#include "tests/parity/train_layout.h"

namespace trireme {
namespace {

using namespace parity;

// Differences between counted and told bytes, one a line.
std::string differences(const Task& task, const Layout& layout) {
  std::mutex mutex;
  std::string text;
  const SampleSource source = samples_of(task);
  run_layout(task, layout, [&](Rank& rank) {
    rank.backend.ledger().reset_peaks();  // those of steps alone
    for (int step = 0; step < 3; ++step) rank.engine.train(step, source);
    const MemoryLedger& ledger = rank.backend.ledger();
    const Forecast told = forecast(rank.engine.options(), rank.mesh.shape(), rank.mesh.coord());
    std::scoped_lock lock(mutex);
    for (int t = 0; t < kTiers; ++t)
      for (int k = 0; k < kMemoryKinds; ++k) {
        const auto tier = static_cast<Tier>(t);
        const auto kind = static_cast<MemoryKind>(k);
        const ForecastCell& cell = told.cell(tier, kind);
        const MemoryLedger::Entry entry = ledger.entry(tier, kind);
        if (kind == MemoryKind::kWorkspace) continue;
        const auto differ = [&](const char* what, std::int64_t counted, std::int64_t said) {
          if (counted != said)
            text +=
                join(rank_prefix(rank.mesh.shape(), rank.mesh.world().rank()), name_of(tier), " ",
                     name_of(kind), " ", what, ": counted ", counted, ", told ", said, "\n");
        };
        differ("resident", entry.current, cell.resident);
        if (cell.exact) differ("peak", entry.peak, cell.peak);
      }
    // The peaks over all kinds, but for the workspace, which is not forecast.
    const bool known = told.cell(Tier::kDevice, MemoryKind::kActivations).exact;
    for (const Tier tier : {Tier::kDevice, Tier::kHost}) {
      const std::int64_t all = ledger.peak(tier), said = told.peak[static_cast<std::size_t>(tier)];
      const std::int64_t unknown = ledger.entry(tier, MemoryKind::kWorkspace).peak;
      if (known && (all < said || all > said + unknown))
        text += join(name_of(tier), " in all: counted ", all, ", told ", said, "\n");
    }
  });
  return text;
}

void expect_exact(const Task& task, const Layout& layout) {
  EXPECT_EQ(differences(task, layout), "") << text_of(layout);
}

TEST(Forecast, EqualsARunAtEveryStage) {
  for (const DType compute : {DType::kF64, DType::kBF16})
    for (int stage = 0; stage <= 3; ++stage)
      for (const MeshShape mesh : {MeshShape{2, 1, 1}, MeshShape{2, 2, 2}})
        expect_exact({.model = tiny_gpt2(), .compute = compute},
                     {.mesh = mesh, .micro = 2, .zero_stage = stage});
}

TEST(Forecast, EqualsARunOfEverySchedule) {
  for (const ScheduleKind schedule : {ScheduleKind::kGPipe, ScheduleKind::kOneFOneB})
    for (const std::int64_t micro : {1, 5})
      expect_exact({.model = tiny_llama(2), .compute = DType::kBF16},
                   {.mesh = {1, 3, 1}, .schedule = schedule, .micro = micro});
  expect_exact({.model = tiny_gpt2()}, {.mesh = {1, 2, 1},
                                        .schedule = ScheduleKind::kInterleaved,
                                        .chunks = 2,
                                        .micro = 3,
                                        .zero_stage = 3});
  expect_exact({.model = tiny_gpt2()}, {.mesh = {2, 1, 1},
                                        .schedule = ScheduleKind::kInterleaved,
                                        .chunks = 2,
                                        .micro = 3,
                                        .zero_stage = 2});
}

TEST(Forecast, EqualsARunOfEveryFamily) {
  for (const ModelOptions& model : {tiny_qwen(1), tiny_qwen(2), tiny_gemma()})
    for (const DType compute : {DType::kF64, DType::kBF16})
      for (const bool sequence : {false, true}) {
        expect_exact(
            {.model = model, .compute = compute},
            {.mesh = {2, 1, 2}, .micro = 2, .sequence_parallel = sequence, .zero_stage = 2});
        expect_exact({.model = model, .compute = compute},
                     {.mesh = {1, 2, 2},
                      .schedule = ScheduleKind::kZeroBubbleH1,
                      .micro = 3,
                      .sequence_parallel = sequence,
                      .recompute = RecomputeMode::kSelective});
      }
  ModelOptions longer = tiny_gpt2();
  longer.positions = 11;
  expect_exact({.model = longer}, {.mesh = {2, 1, 1}, .micro = 2, .zero_stage = 3});
}

TEST(Forecast, EqualsARunOfDocuments) {
  for (const ModelOptions& model : {tiny_gpt2(), tiny_llama(2)})
    expect_exact({.model = model, .compute = DType::kBF16, .documents = true},
                 {.mesh = {2, 3, 2}, .micro = 2, .recompute = RecomputeMode::kFull});
}

TEST(Forecast, EqualsARunThatRecomputes) {
  for (const RecomputeMode mode : {RecomputeMode::kFull, RecomputeMode::kSelective})
    for (const std::int64_t every : {1, 3}) {
      if (mode == RecomputeMode::kSelective && every > 1) continue;
      for (const bool sequence : {false, true})
        expect_exact({.model = tiny_llama(2), .compute = DType::kBF16},
                     {.mesh = {2, 1, 2},
                      .micro = 2,
                      .sequence_parallel = sequence,
                      .recompute = mode,
                      .recompute_every = every,
                      .zero_stage = 3});
    }
}

TEST(Forecast, EqualsARunThatKeepsACopyOfItsStates) {
  for (const DType compute : {DType::kF64, DType::kBF16})
    for (int stage = 0; stage <= 3; ++stage) {
      Task task{.model = tiny_gpt2(), .compute = compute};
      task.state_copy = true;
      OffloadTiers tiers;
      if (stage > 1) tiers.optimizer = Tier::kHost;
      expect_exact(task, {.mesh = {2, 1, 2}, .micro = 2, .zero_stage = stage, .offload = tiers});
    }
}

TEST(Forecast, EqualsARunOfTheClassifier) {
  for (const DType compute : {DType::kF32, DType::kBF16})
    for (const MeshShape mesh : {MeshShape{2, 1, 2}, MeshShape{1, 3, 1}})
      for (const RecomputeMode mode : {RecomputeMode::kNone, RecomputeMode::kFull})
        expect_exact({.model = tiny_mlp(), .compute = compute},
                     {.mesh = mesh, .micro = 2, .recompute = mode, .zero_stage = 2});
}

TEST(Forecast, EqualsARunThatHoldsWeightsLonger) {
  for (const Reshard reshard : {Reshard::kForward, Reshard::kBackward, Reshard::kStep})
    for (const bool overlap : {true, false})
      expect_exact(
          {.model = tiny_gpt2()},
          {.mesh = {2, 2, 1}, .micro = 2, .zero_stage = 3, .reshard = reshard, .overlap = overlap});
  expect_exact({.model = tiny_gpt2()},
               {.mesh = {4, 1, 1}, .micro = 2, .zero_stage = 2, .shard_ranks = 2});
}

// Tiles of some elements, of most units' shards, and of more than any.
TEST(Forecast, EqualsARunWithStatesElsewhere) {
  for (const Tier tier : {Tier::kHost, Tier::kDisk})
    for (const std::int64_t tile : {7, 100, 1000, 1 << 20})
      for (int stage = 1; stage <= 3; ++stage)
        for (const bool all : {true, false}) {
          if (tier == Tier::kDisk && tile == 7) continue;  // a slot of the disk per tile
          OffloadTiers tiers{
              .optimizer = all ? tier : Tier::kDevice, .gradients = tier, .tile = tile};
          if (stage == 3) tiers.parameters = tier;
          expect_exact({.model = tiny_gpt2(), .compute = DType::kBF16},
                       {.mesh = {2, 1, 1}, .micro = 2, .zero_stage = stage, .offload = tiers});
        }
}

// Each kind on a tier of its own.
TEST(Forecast, EqualsARunWithOneKindElsewhere) {
  const Tier tiers[] = {Tier::kDevice, Tier::kHost, Tier::kDisk};
  for (int stage = 1; stage <= 3; ++stage)
    for (int i = 0; i < (stage == 3 ? 27 : 9); ++i) {
      const OffloadTiers moved{.optimizer = tiers[i % 3],
                               .gradients = tiers[i / 3 % 3],
                               .parameters = tiers[i / 9],
                               .tile = 300};
      expect_exact(
          {.model = tiny_llama(2), .compute = DType::kBF16, .narrow_gradients = i % 2 == 0},
          {.mesh = {2, 1, 1}, .micro = 3, .zero_stage = stage, .offload = moved});
    }
}

// What is read ahead, with weights held longer, prefetch or none; cut over tensor ranks and stages.
TEST(Forecast, EqualsARunOfManyRanksWithStatesElsewhere) {
  for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
    const OffloadTiers all{.optimizer = tier, .gradients = tier, .parameters = tier, .tile = 150};
    for (const Reshard reshard : {Reshard::kForward, Reshard::kBackward, Reshard::kStep})
      for (const bool overlap : {true, false})
        expect_exact({.model = tiny_gpt2()}, {.mesh = {2, 2, 1},
                                              .micro = 2,
                                              .zero_stage = 3,
                                              .reshard = reshard,
                                              .overlap = overlap,
                                              .offload = all});
    for (const bool sequence : {false, true})
      expect_exact({.model = tiny_llama(2), .compute = DType::kBF16},
                   {.mesh = {2, 1, 4},
                    .micro = 3,
                    .sequence_parallel = sequence,
                    .recompute = RecomputeMode::kFull,
                    .zero_stage = 3,
                    .offload = all});
    for (int stage = 1; stage <= 3; ++stage)
      expect_exact({.model = tiny_gpt2()}, {.mesh = {4, 1, 1},
                                            .micro = 1,
                                            .zero_stage = stage,
                                            .shard_ranks = 2,
                                            .offload = {.gradients = tier, .tile = 64}});
  }
  // Without moments and masters there is nothing to keep elsewhere: the update is the device's.
  expect_exact({.model = tiny_gpt2(), .optimizer = {.kind = OptimizerKind::kSgd}},
               {.mesh = {2, 1, 1},
                .micro = 2,
                .zero_stage = 2,
                .offload = {.optimizer = Tier::kHost, .gradients = Tier::kHost, .tile = 100}});
}

TEST(Forecast, EqualsARunWithKeptInputsElsewhere) {
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk})
    for (const bool partition : {true, false})
      expect_exact({.model = tiny_gpt2(), .compute = DType::kBF16},
                   {.mesh = {1, 2, 2},
                    .micro = 2,
                    .recompute = RecomputeMode::kFull,
                    .partition_activations = partition,
                    .offload = {.activations = tier}});
}

TEST(Forecast, EqualsARunOfASplitBackward) {
  for (const RecomputeMode mode :
       {RecomputeMode::kNone, RecomputeMode::kFull, RecomputeMode::kSelective})
    for (int stage = 0; stage <= 3; ++stage)
      expect_exact({.model = tiny_gpt2(), .compute = DType::kBF16},
                   {.mesh = {2, 2, 1},
                    .schedule = ScheduleKind::kZeroBubbleH1,
                    .micro = 1,
                    .recompute = mode,
                    .zero_stage = stage});
  expect_exact({.model = tiny_mlp()}, {.mesh = {1, 2, 1},
                                       .schedule = ScheduleKind::kZeroBubbleH1,
                                       .micro = 3,
                                       .recompute = RecomputeMode::kFull});
}

// Frozen layers have lists of their own: what only a gradient of a weight needs is not there.
TEST(Forecast, TellsFrozenParametersToo) {
  for (const std::string part : {"layers.1", "embedding", "layers.", "norm", "attention.qkv"}) {
    const auto frozen = [part](const std::string& name) { return name.find(part) != name.npos; };
    const Task task{.model = tiny_gpt2(), .compute = DType::kBF16, .frozen = frozen};
    expect_exact(task, {.micro = 3});
    expect_exact(task, {.mesh = {2, 2, 1}, .micro = 2, .zero_stage = 2});
    expect_exact(task, {.mesh = {1, 2, 2},
                        .schedule = ScheduleKind::kZeroBubbleH1,
                        .micro = 2,
                        .sequence_parallel = true,
                        .recompute = RecomputeMode::kSelective});
    expect_exact(task, {.mesh = {2, 1, 2}, .recompute = RecomputeMode::kFull, .zero_stage = 3});
  }
  const EngineOptions options{
      .model = tiny_gpt2(),
      .stage = {.plan = {.frozen = [](const std::string& n) { return n != "norm.bias"; }}},
      .global_batch = 4};
  EXPECT_EQ(forecast(options, {1, 1, 1}, {}).doubts.size(), 1u);
}

TEST(Forecast, TellsAdapters) {
  for (const DType compute : {DType::kF32, DType::kBF16})
    for (const bool gpt2 : {true, false}) {
      Task task{.model = gpt2 ? tiny_gpt2() : tiny_llama(2), .compute = compute};
      task.model.lora = {.rank = 2, .targets = {"attention.q", "attention.v", "mlp.down"}};
      if (gpt2) task.model.lora.targets = {"attention.qkv", "attention.output", "mlp.up"};
      task.frozen = [](const std::string& name) { return !is_adapter(name); };
      for (const RecomputeMode mode :
           {RecomputeMode::kNone, RecomputeMode::kFull, RecomputeMode::kSelective}) {
        expect_exact(task, {.micro = 3, .recompute = mode});
        expect_exact(task, {.mesh = {2, 2, 1},
                            .schedule = ScheduleKind::kZeroBubbleH1,
                            .micro = 1,
                            .recompute = mode,
                            .zero_stage = 3});
        expect_exact(task, {.mesh = {1, 2, 2},
                            .micro = 2,
                            .sequence_parallel = true,
                            .recompute = mode,
                            .zero_stage = 1});
        expect_exact(task, {.mesh = {2, 1, 2}, .recompute = mode, .zero_stage = 2});
      }
    }
}

// What lies between steps is the arithmetic of the states, tier by tier.
TEST(Forecast, ResidentIsTheFormula) {
  for (int stage = 0; stage <= 3; ++stage) {
    EngineOptions options{.model = tiny_gpt2(), .global_batch = 8};
    options.stage.zero_stage = stage;
    options.stage.compute = DType::kBF16;
    if (stage > 0) options.stage.offload.gradients = Tier::kHost;
    const Forecast told = forecast(options, {4, 1, 2}, {});
    EXPECT_EQ(told.resident[0], state_bytes(told.states, Tier::kDevice));
    EXPECT_EQ(told.resident[1], state_bytes(told.states, Tier::kHost));
    EXPECT_EQ(told.ranks, 4);
  }
}

TEST(Forecast, TermsAddUp) {
  const EngineOptions options{.model = tiny_gpt2(), .global_batch = 8, .micro_batch = 2};
  const Forecast told = forecast(options, {2, 2, 1}, {});
  std::int64_t sum = 0;
  for (const MemoryTerm& term : told.device_peak) sum += term.bytes;
  EXPECT_EQ(sum, told.peak[0]);
  for (const auto& kinds : told.cells)
    for (const ForecastCell& cell : kinds) {
      std::int64_t resident = 0, peak = 0;
      for (const MemoryTerm& term : cell.resident_terms) resident += term.bytes;
      for (const MemoryTerm& term : cell.peak_terms) peak += term.bytes;
      EXPECT_EQ(resident, cell.resident);
      EXPECT_EQ(peak, cell.peak);
    }
}

}  // namespace
}  // namespace trireme
