// What training goes on beside is written as if it had waited: the same bytes, at most one copy of
// a rank's share, freed in time, with what went wrong told to all ranks.
#include "recipes/train/background_save.h"

#include <gtest/gtest.h>

#include "framework/checkpoint/inspect.h"
#include "recipes/memory/forecast.h"
#include "recipes/train/rank_report.h"
#include "tests/recipes/train/background/flight.h"
#include "tests/support/faulty_files.h"

namespace trireme::testing {
namespace {

using namespace parity;

std::vector<Layout> layouts() {
  return {{.mesh = {.data = 2}, .zero_stage = 1},
          {.mesh = {.data = 2, .pipeline = 1, .tensor = 2}, .zero_stage = 3},
          {.mesh = {.data = 1, .pipeline = 2, .tensor = 1}, .zero_stage = 0},
          {.mesh = {.data = 4}, .zero_stage = 2, .shard_ranks = 2},
          {.mesh = {.data = 2},
           .zero_stage = 3,
           .offload = {.optimizer = Tier::kHost,
                       .gradients = Tier::kHost,
                       .parameters = Tier::kHost,
                       .tile = 500}}};
}

TEST(BackgroundSave, HasTheBytesOfASaveThatTrainingWaitedFor) {
  const auto files = real_files();
  for (const DType compute : {DType::kF64, DType::kBF16})
    for (const Layout& layout : layouts()) {
      SCOPED_TRACE(text_of(layout) + " " + std::string(name_of(compute)));
      const Task task{.model = tiny_gpt2(), .compute = compute};
      const SampleSource source = random_samples(task.model, task.seed);
      const TemporaryFolder folder;
      Sessions waited(*files, folder / "a", layout.mesh.ranks());
      Sessions flown(*files, folder / "b", layout.mesh.ranks());
      run_layout(task, layout, [&](Rank& rank) {
        const Manifest head{.run = "test", .step = 2, .recipe = "[train]\n"};
        for (int step = 0; step < 2; ++step) rank.engine.train(step, source);
        save(waited.rank(rank), head);
        BackgroundSave save(flown.rank(rank), head);
        double all = 0;
        for (int step = 2; step < 4; ++step)  // changes what was copied
          all =
              rank.engine.train(step, source, {.written = save.written()}).optimizer.wishes.written;
        save.complete(save.is_over(all));
      });
      const auto a = contents_of(*files, folder / "a"), b = contents_of(*files, folder / "b");
      EXPECT_GE(a.size(), 5u);
      EXPECT_TRUE(a == b);
      EXPECT_EQ(verify_checkpoint(*files, folder / "b/step-000002"), std::vector<std::string>{});
    }
}

// Whole runs: the same losses and the same files, whoever waited.
TEST(BackgroundSave, ARunIsTheSameWithAndWithout) {
  const auto files = real_files();
  for (const bool processes : {false, true})
    for (const Layout& layout : layouts()) {
      SCOPED_TRACE(text_of(layout));
      const TemporaryFolder folder;
      const auto sessions = [&](const std::string& name) {
        const int ranks = layout.mesh.ranks();
        if (!processes) return Sessions(*files, folder / name, ranks);
        return Sessions(std::vector<Files*>(static_cast<std::size_t>(ranks), files.get()),
                        folder / name);
      };
      Flight flight{.task = {.model = tiny_mlp()}, .layout = layout, .steps = 7, .every = 2};
      Sessions flown = sessions("b");
      const Landing b = fly(flight, flown);
      flight.background = false;
      Sessions waited = sessions("a");
      const Landing a = fly(flight, waited);
      EXPECT_TRUE(a.none_failed() && b.none_failed()) << b.sentences[0];
      EXPECT_EQ(a.losses, b.losses);
      auto old_files = contents_of(*files, folder / "a"),
           new_files = contents_of(*files, folder / "b");
      EXPECT_EQ(flown.of(0).folder().steps(), (std::vector<std::int64_t>{2, 4, 6, 7}));
      for (auto& [name, bytes] : old_files) {
        // The recorded recipe names the key.
        if (name.ends_with("recipe.cfg") || name.ends_with("manifest.json")) continue;
        EXPECT_TRUE(new_files[name] == bytes) << name;
      }
      EXPECT_EQ(old_files.size(), new_files.size());
    }
}

TEST(BackgroundSave, AStopCompletesTheOneInFlightFirst) {
  const auto files = real_files();
  const TemporaryFolder folder;
  Sessions sessions(*files, folder / "a", 2);
  const Landing landing = fly({.task = {.model = tiny_mlp()},
                               .layout = {.mesh = {.data = 2}, .zero_stage = 1},
                               .steps = 100,
                               .every = 3,
                               .stop_after = 4},
                              sessions);
  EXPECT_TRUE(landing.none_failed());
  EXPECT_EQ(landing.losses.size(), 4u);
  EXPECT_EQ(sessions.of(0).folder().steps(), (std::vector<std::int64_t>{3, 4}));
  for (const char* step : {"/step-000003", "/step-000004"})
    EXPECT_EQ(verify_checkpoint(*files, folder / "a" + step), std::vector<std::string>{});
}

// Between steps and during them: the snapshot is a term of the peak, never of what stays.
TEST(BackgroundSave, ItsMemoryHasTheFormula) {
  const auto files = real_files();
  std::vector<Layout> all = layouts();
  all.push_back({.mesh = {.data = 2, .pipeline = 2, .tensor = 2}, .zero_stage = 1});
  for (const DType compute : {DType::kF64, DType::kBF16})
    for (const Layout& layout : all) {
      SCOPED_TRACE(text_of(layout) + " " + std::string(name_of(compute)));
      const Task task{.model = tiny_gpt2(), .compute = compute};
      const SampleSource source = random_samples(task.model, task.seed);
      const TemporaryFolder folder;
      Sessions sessions(*files, folder / "a", layout.mesh.ranks());
      std::mutex mutex;
      std::int64_t copied = 0;
      run_layout(task, layout, [&](Rank& rank) {
        MemoryLedger& ledger = rank.backend.ledger();
        StepMemory memory(ledger);
        const auto step = [&](int index) {
          memory.begin_step();
          rank.engine.train(index, source);
          memory.end_step();
        };
        step(0);
        const std::int64_t before = ledger.current(Tier::kHost);
        BackgroundSave save(sessions.rank(rank), {.step = 1, .recipe = "[train]\n"});
        const std::int64_t snapshot = ledger.current(Tier::kHost) - before;
        step(1);
        save.complete(false);
        EXPECT_EQ(ledger.current(Tier::kHost), before);
        memory.mark_resident();
        const auto cell = rank_report(rank.mesh, rank.engine, memory, {}, {.background_save = true})
                              .memory.at("host")
                              .at("communication");
        const std::scoped_lock lock(mutex);
        copied += snapshot;
        EXPECT_EQ(cell.formula_peak, cell.peak);
        EXPECT_EQ(cell.formula_resident, cell.resident);
        EXPECT_GE(cell.peak, snapshot);
      });
      const CheckpointReader reader(*files, folder / "a/step-000001");
      std::int64_t saved = 0;  // every logical element once
      for (const LogicalArray& array : reader.arrays())
        saved += array.shape.elements() * size_of(array.dtype);
      EXPECT_EQ(copied, saved);
    }
}

TEST(BackgroundSave, OnlyOneSnapshotLivesAtATime) {
  const auto files = real_files();
  const TemporaryFolder folder;
  const Flight flight{.task = {.model = tiny_gpt2()},
                      .layout = {.mesh = {.data = 2}, .zero_stage = 1},
                      .steps = 8,
                      .every = 1};
  Sessions sessions(*files, folder / "a", 2);
  const Landing landing = fly(flight, sessions);
  EXPECT_TRUE(landing.none_failed());
  EXPECT_EQ(sessions.of(0).folder().steps().size(), 8u);
  Sessions one(*files, folder / "b", 2);
  const Landing single = fly({flight.task, flight.layout, 0, 8, 5}, one);
  EXPECT_GT(single.snapshots[0], 0);
  EXPECT_EQ(landing.snapshots, single.snapshots);
}

TEST(BackgroundSave, OneThatIsGivenUpLeavesNothingAndTheNextWorks) {
  const auto files = real_files();
  const TemporaryFolder folder;
  const Task task{.model = tiny_gpt2()};
  Sessions sessions(*files, folder / "a", 2);
  const SampleSource source = random_samples(task.model, task.seed);
  run_layout(task, {.mesh = {.data = 2}, .zero_stage = 1}, [&](Rank& rank) {
    const std::int64_t before = rank.backend.ledger().current(Tier::kHost);
    for (int step = 1; step <= 5; ++step) {
      rank.engine.train(step - 1, source);
      const BackgroundSave save(sessions.rank(rank), {.step = step, .recipe = "[train]\n"});
    }
    rank.mesh.world().barrier();
    if (rank.first()) {
      EXPECT_EQ(files->list(folder / "a"), std::vector<std::string>{});
    }
    EXPECT_EQ(rank.backend.ledger().current(Tier::kHost), before);
    BackgroundSave save(sessions.rank(rank), {.step = 6, .recipe = "[train]\n"});
    save.complete(false);
  });
  EXPECT_EQ(verify_checkpoint(*files, folder / "a/step-000006"), std::vector<std::string>{});
}

}  // namespace
}  // namespace trireme::testing
