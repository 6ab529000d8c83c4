// States through files: saved by one layout, loaded by another; what a save takes in memory; what
// stays of a save that fails.
#include "recipes/train/save_session.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "framework/checkpoint/inspect.h"
#include "tests/parity/train_layout.h"
#include "tests/support/fault_count.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

using namespace parity;
using testing::sentence_of;
using testing::TemporaryFolder;

constexpr int kBefore = 2, kAfter = 3;

int ranks_of(const Layout& layout) { return layout.mesh.ranks(); }

SaveRank save_rank(SaveSession& session, Rank& rank) {
  return {&session, rank.engine, rank.mesh, rank.backend, rank.backend};
}

Manifest head_of(int step) { return {.run = "test", .step = step, .recipe = "[train]\n"}; }

// Trains kBefore steps and saves.
void train_and_save(const Task& task, const Layout& layout, const std::string& folder) {
  const auto files = real_files();
  SaveSession session(*files, folder, 0, ranks_of(layout));
  const SampleSource source = random_samples(task.model, task.seed);
  run_layout(task, layout, [&](Rank& rank) {
    for (int step = 0; step < kBefore; ++step) rank.engine.train(step, source);
    save(save_rank(session, rank), head_of(kBefore));
  });
}

// Losses of kAfter steps behind the checkpoint (or behind kBefore steps), which is saved again into
// `again` unless that is empty.
std::vector<double> go_on(const Task& task, const Layout& layout, const std::string& folder,
                          const std::string& again = "") {
  const auto files = real_files();
  SaveSession session(*files, folder, 0, ranks_of(layout));
  SaveSession second(*files, again, 0, ranks_of(layout));
  const SampleSource source = random_samples(task.model, task.seed);
  std::vector<double> losses;
  run_layout(task, layout, [&](Rank& rank) {
    if (folder.empty())
      for (int step = 0; step < kBefore; ++step) rank.engine.train(step, source);
    else
      load(save_rank(session, rank), kBefore);
    if (!again.empty()) save(save_rank(second, rank), head_of(kBefore));
    for (int step = kBefore; step < kBefore + kAfter; ++step) {
      const double loss = rank.engine.train(step, source).loss;
      if (rank.first()) losses.push_back(loss);
    }
  });
  return losses;
}

const OffloadTiers kDiskTiers{
    .optimizer = Tier::kDisk, .gradients = Tier::kHost, .parameters = Tier::kHost, .tile = 500};

// P16: the same layout goes on with the same bits, whatever the formats, stages and tiers.
TEST(SaveSession, TheSameLayoutGoesOnWithTheSameBits) {
  Task task{.model = tiny_llama(2)};
  task.model.dropout = 0.1;
  for (const DType compute : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16})
    for (const int stage : {0, 1, 2, 3})
      for (const bool disk : {false, true}) {
        if (disk && stage < 3) continue;
        SCOPED_TRACE(join(name_of(compute), " stage ", stage, disk ? " from a disk" : ""));
        task.compute = compute;
        task.loss_scale = compute == DType::kF16
                              ? LossScaleOptions{.dynamic = true, .initial = 1024, .window = 3}
                              : LossScaleOptions{};
        const Layout layout{.mesh = {.data = 2, .pipeline = 1, .tensor = 1},
                            .zero_stage = stage,
                            .offload = disk ? kDiskTiers : OffloadTiers{}};
        const TemporaryFolder folder;
        train_and_save(task, layout, folder / "a");
        EXPECT_EQ(go_on(task, layout, folder / "a"), go_on(task, layout, ""));
      }
}

// P24, and save-load-save: the logical content has the same bits under every layout.
TEST(SaveSession, AnotherLayoutGoesOnAndSavesTheSame) {
  const Task task{.model = tiny_llama(2)};
  const std::vector<double> quiet = go_on(task, {}, "");
  const std::vector<Layout> layouts = {
      {.mesh = {.data = 2, .pipeline = 1, .tensor = 2}},
      {.mesh = {.data = 1, .pipeline = 2, .tensor = 1}, .zero_stage = 0},
      {.mesh = {.data = 4}, .zero_stage = 3},
      {.mesh = {.data = 4}},
      {.mesh = {.data = 1, .pipeline = 1, .tensor = 4}, .sequence_parallel = true},
      {.mesh = {.data = 2}, .zero_stage = 3, .offload = kDiskTiers},
      {.mesh = {.data = 2, .pipeline = 2, .tensor = 2},
       .schedule = ScheduleKind::kInterleaved,
       .chunks = 2,
       .zero_stage = 2},
      {.mesh = {.data = 4}, .recompute = RecomputeMode::kFull, .zero_stage = 3, .shard_ranks = 2}};
  const auto files = real_files();
  for (const Layout& first : layouts) {
    const TemporaryFolder folder;
    train_and_save(task, first, folder / "a");
    for (const Layout& second : layouts) {
      SCOPED_TRACE(text_of(first) + " then " + text_of(second));
      files->remove_all(folder / "b");
      const std::vector<double> losses = go_on(task, second, folder / "a", folder / "b");
      for (int i = 0; i < kAfter; ++i) EXPECT_NEAR(losses[i], quiet[i], 1e-12 * quiet[i]);
      const CheckpointReader a(*files, folder / "a/step-000002"),
          b(*files, folder / "b/step-000002");
      EXPECT_TRUE(difference(a, b).none());
    }
  }
}

TEST(SaveSession, AnotherModelIsRefusedByTensor) {
  const Task task{.model = tiny_llama(2)};
  const TemporaryFolder folder;
  train_and_save(task, {}, folder / "a");
  const auto refusal = [&](const ModelOptions& model) {
    return sentence_of([&] { go_on({.model = model}, {}, folder / "a"); });
  };
  ModelOptions fewer = task.model, more = task.model, wider = task.model;
  fewer.layers -= 1;
  more.layers += 1;
  wider.ffn *= 2;
  EXPECT_NE(refusal(fewer).find("which the recipe's model or optimizer has not"), std::string::npos)
      << refusal(fewer);
  EXPECT_NE(refusal(more).find("layers.4"), std::string::npos) << refusal(more);
  EXPECT_NE(refusal(wider).find("layers.0.mlp"), std::string::npos) << refusal(wider);
}

// A fixed scale of 1 says nothing about the scale that f16 needs; f16's own goes on.
TEST(SaveSession, ADynamicLossScaleDoesNotBeginWithAFixedOne) {
  const LossScaleOptions dynamic{.dynamic = true, .initial = 1024, .window = 2};
  const Task fixed{.model = tiny_llama(2), .compute = DType::kF32};
  const Task scaled{.model = tiny_llama(2), .compute = DType::kF16, .loss_scale = dynamic};
  const auto scale_after = [&](const Task& saved, const Task& loaded) {
    const TemporaryFolder folder;
    train_and_save(saved, {}, folder / "a");
    const auto files = real_files();
    SaveSession session(*files, folder / "a", 0, 1);
    double scale = 0;
    run_layout(loaded, {}, [&](Rank& rank) {
      load(save_rank(session, rank), kBefore);
      scale = rank.engine.optimizer().loss_scale();
    });
    return scale;
  };
  EXPECT_EQ(scale_after(fixed, scaled), 1024);
  EXPECT_EQ(scale_after(scaled, scaled), 2048);
  EXPECT_EQ(scale_after(scaled, fixed), 1);
}

// P22: what is frozen is in the checkpoint, without moments, and goes on.
TEST(SaveSession, FrozenParametersAreSavedWithoutMoments) {
  Task task{.model = tiny_gpt2()};
  task.frozen = [](const std::string& name) {
    return name.starts_with("embedding.") || name.starts_with("layers.1.");
  };
  const auto files = real_files();
  for (const int stage : {0, 3}) {
    const Layout layout{.mesh = {.data = 2}, .zero_stage = stage};
    const TemporaryFolder folder;
    train_and_save(task, layout, folder / "a");
    int frozen = 0;
    for (const LogicalArray& array : CheckpointReader(*files, folder / "a/step-000002").arrays()) {
      if (!task.frozen(array.name.tensor)) continue;
      EXPECT_EQ(array.name.array, "value") << array.name.tensor;
      ++frozen;
    }
    EXPECT_GT(frozen, 5);
    EXPECT_EQ(go_on(task, layout, folder / "a"), go_on(task, layout, ""));
  }
}

// P25: no copy of the state, only blocks; and nothing is kept.
TEST(SaveSession, TakesBlocksOfMemoryAndGivesThemBack) {
  Task task{.model = tiny_llama(2)};
  task.model.ffn = 4096;
  for (const bool disk : {false, true}) {
    const Layout layout{
        .mesh = {.data = 2}, .zero_stage = 3, .offload = disk ? kDiskTiers : OffloadTiers{}};
    const TemporaryFolder folder;
    const auto files = real_files();
    SaveSession session(*files, folder / "a", 0, 2);
    const SampleSource source = random_samples(task.model, task.seed);
    run_layout(task, layout, [&](Rank& rank) {
      rank.engine.train(0, source);
      MemoryLedger& ledger = rank.backend.ledger();
      for (int step = 1; step <= 10; ++step) {
        const std::int64_t host = ledger.current(Tier::kHost),
                           device = ledger.current(Tier::kDevice);
        ledger.reset_peaks();
        save(save_rank(session, rank), head_of(step));
        EXPECT_LE(ledger.peak(Tier::kHost) - host, 2 * kHashBlock);
        EXPECT_LE(ledger.peak(Tier::kDevice) - device, std::int64_t{1} << 20);
        EXPECT_EQ(ledger.current(Tier::kHost), host);
        EXPECT_EQ(ledger.current(Tier::kDevice), device);
      }
    });
    EXPECT_EQ(session.folder().steps().size(), 10u);
  }
}

// R9: the k-th file call fails, for good. A sentence on all ranks, the older checkpoint whole, no
// rubbish that stays, and the next save succeeds.
TEST(SaveSession, AFailedSaveLeavesTheOlderCheckpoint) {
  const Task task{.model = tiny_mlp()};
  const Layout layout{.mesh = {.data = 2}, .zero_stage = 1};
  const TemporaryFolder folder;
  train_and_save(task, layout, folder / "a");
  const auto real = real_files();
  std::int64_t failures = 0, runs = 0;
  for (const testing::Fault fault : {testing::Fault::kIoError, testing::Fault::kDiskFull})
    for (std::int64_t call = 1; call < 2000; call += 5) {
      testing::FaultyFiles files({fault, call, false});
      SaveSession session(files, folder / "a", 0, 2);
      std::string said;
      run_layout(task, layout, [&](Rank& rank) {
        const std::string mine = sentence_of([&] { save(save_rank(session, rank), head_of(3)); });
        if (rank.first()) said = mine;
      });
      if (files.fired() == 0) break;
      failures += said.empty() ? 0 : 1;
      ++runs;
      EXPECT_EQ(verify_checkpoint(*real, folder / "a/step-000002"), std::vector<std::string>{});
      SaveSession calm(*real, folder / "a", 0, 2);
      run_layout(task, layout, [&](Rank& rank) { save(save_rank(calm, rank), head_of(3)); });
      EXPECT_EQ(verify_checkpoint(*real, folder / "a/step-000003"), std::vector<std::string>{});
      EXPECT_EQ(real->list(folder / "a").size(), 3u);  // two steps and `latest`
      real->remove_all(folder / "a/step-000003");
    }
  EXPECT_GT(failures, 10);
  test::tell({.row = "R9",
              .what = "a file call of a save of two ranks fails",
              .runs = runs,
              .injected = failures,
              .lost = HasFailure() ? 1 : 0});
}

}  // namespace
}  // namespace trireme
