// What a load gives: all of the state, whatever was there before; weights alone for those who only
// look forward; damage on all ranks at once; and how little memory it takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <random>

#include "framework/base/error.h"
#include "recipes/train/save_session.h"
#include "tests/parity/train_layout.h"
#include "tests/support/faulty_files.h"
#include "tests/support/passed_files.h"

namespace trireme {
namespace {

using namespace parity;
using testing::TemporaryFolder;

SaveRank save_rank(SaveSession& session, Engine& engine, Rank& rank) {
  return {&session, engine, rank.mesh, rank.backend, rank.backend};
}

Manifest head_of(int step) { return {.run = "test", .step = step, .recipe = "[train]\n"}; }

std::vector<double> losses_of(Engine& engine, int from, const SampleSource& source) {
  std::vector<double> losses;
  for (int step = from; step < from + 3; ++step) losses.push_back(engine.train(step, source).loss);
  return losses;
}

// An engine that was never filled goes on as the one that saved: nothing is left uncovered.
TEST(Load, ReplacesAllThatAnUnfilledEngineLacks) {
  Task task{.model = tiny_llama(2)};
  const SampleSource source = random_samples(task.model, task.seed);
  for (const DType compute : {DType::kF64, DType::kBF16})
    for (const int stage : {0, 1, 3}) {
      SCOPED_TRACE(join(name_of(compute), " stage ", stage));
      task.compute = compute;
      const TemporaryFolder folder;
      const auto files = real_files();
      SaveSession session(*files, folder / "a", 0, 4, 8);
      const Layout layout{.mesh = {.data = 2, .pipeline = 1, .tensor = 2}, .zero_stage = stage};
      run_layout(task, layout, [&](Rank& rank) {
        for (int step = 0; step < 2; ++step) rank.engine.train(step, source);
        save(save_rank(session, rank.engine, rank), head_of(2));
        const std::vector<double> quiet = losses_of(rank.engine, 2, source);
        EngineOptions options = rank.engine.options();
        options.optimizer.initial_values = false;
        Engine empty(options, rank.mesh, rank.backend);
        load(save_rank(session, empty, rank), 2);
        EXPECT_EQ(losses_of(empty, 2, source), quiet);
      });
    }
}

TEST(Load, InitialValuesCanComeLater) {
  const Task task{.model = tiny_gpt2()};
  const SampleSource source = random_samples(task.model, task.seed);
  run_layout(task, {}, [&](Rank& rank) {
    EngineOptions options = rank.engine.options();
    options.optimizer.initial_values = false;
    Engine later(options, rank.mesh, rank.backend);
    later.kept().fill_initial();
    EXPECT_EQ(losses_of(later, 0, source), losses_of(rank.engine, 0, source));
  });
}

TEST(Load, ForwardOnlyHoldsWeightsAndSaysTheSame) {
  for (const DType compute : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    const Task task{.model = tiny_llama(2), .compute = compute};
    const SampleSource source = random_samples(task.model, task.seed);
    const TemporaryFolder folder;
    const auto files = real_files();
    SaveSession session(*files, folder / "a", 0, 2, 4);
    run_layout(task, {.mesh = {.data = 1, .pipeline = 1, .tensor = 2}}, [&](Rank& rank) {
      for (int step = 0; step < 2; ++step) rank.engine.train(step, source);
      save(save_rank(session, rank.engine, rank), head_of(2));
      const MemoryLedger& ledger = rank.backend.ledger();
      const auto held = [&](MemoryKind kind) { return ledger.entry(Tier::kDevice, kind).current; };
      const std::int64_t parameters = held(MemoryKind::kParameters),
                         gradients = held(MemoryKind::kGradients),
                         states = held(MemoryKind::kOptimizer);
      EngineOptions options = rank.engine.options();
      options.forward_only = true;
      Engine forward(options, rank.mesh, rank.backend);
      EXPECT_EQ(held(MemoryKind::kParameters), 2 * parameters);
      EXPECT_EQ(held(MemoryKind::kGradients), gradients);
      EXPECT_EQ(held(MemoryKind::kOptimizer), states);
      load(save_rank(session, forward, rank), 2, LoadWhat::kWeights);
      const std::vector<std::int32_t> ids = {1, 5, 2, 7};
      EXPECT_EQ(forward.next_logits(ids), rank.engine.next_logits(ids));
      EXPECT_EQ(forward.evaluate(6, source), rank.engine.evaluate(6, source));
    });
  }
}

// R13: one bit anywhere in what training reads is found by the load, on all ranks, whichever read
// it; and the older checkpoint gives its state whole.
TEST(Load, DamageIsFoundOnAllRanksAndTheOlderOneIsWhole) {
  const Task task{.model = tiny_llama(2), .compute = DType::kF32};
  const SampleSource source = random_samples(task.model, task.seed);
  const TemporaryFolder folder;
  const auto files = real_files();
  const Layout layout{.mesh = {.data = 2, .pipeline = 2, .tensor = 1}, .zero_stage = 1};
  SaveSession session(*files, folder / "a", 0, 4, 4);
  const std::string newest = session.folder().folder_of(2), path = newest + "/ranks-0.h5";
  std::mt19937_64 random(5);
  const auto flip = [&](std::int64_t at) {
    const auto file = files->open(path, OpenMode::kReadWrite);
    std::byte byte{};
    file->read(&byte, 1, at);
    byte ^= std::byte{16};
    file->write(&byte, 1, at);
  };
  std::atomic<int> found_loading = 0;
  int glances = 0;
  run_layout(task, layout, [&](Rank& rank) {
    const SaveRank all = save_rank(session, rank.engine, rank);
    rank.engine.train(0, source);
    save(all, head_of(1));
    const std::vector<double> quiet = losses_of(rank.engine, 1, source);
    load(all, 1);
    rank.engine.train(1, source);
    save(all, head_of(2));
    for (int i = 0; i < 60; ++i) {
      std::int64_t at = 0;
      bool seen = false;
      if (rank.first()) {
        at = static_cast<std::int64_t>(random() %
                                       static_cast<std::uint64_t>(files->status(path).bytes));
        flip(at);
        seen = !glance_at_checkpoint(*files, newest).empty();
        glances += seen ? 1 : 0;
      }
      rank.mesh.world().barrier();
      bool damaged = false;
      try {
        load(all, 2);
      } catch (const DamagedCheckpoint&) {
        damaged = true;
        ++found_loading;
      }
      if (rank.first()) {
        EXPECT_TRUE(damaged || seen) << "byte " << at;
        flip(at);
      }
      rank.mesh.world().barrier();
      if (i % 20 != 0) continue;
      load(all, 1);
      EXPECT_EQ(losses_of(rank.engine, 1, source), quiet);
    }
  });
  EXPECT_EQ(found_loading % 4, 0) << "some ranks only";
  EXPECT_GT(found_loading, 4 * 5);
  EXPECT_GT(glances, 0);
}

// RssAnon whenever a file is opened or written.
class WatchedFiles final : public testing::PassedFiles {
 public:
  WatchedFiles() : PassedFiles(real_files()) {}
  Outcome raw_open(const std::string& path, OpenMode mode, std::unique_ptr<File>& into) override {
    look();
    return inner().raw_open(path, mode, into);
  }
  Outcome raw_rename(const std::string& from, const std::string& to) override {
    look();
    return inner().raw_rename(from, to);
  }
  static std::int64_t now() {
    std::ifstream in("/proc/self/status");
    for (std::string line; std::getline(in, line);)
      if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8)) * 1024;
    return 0;
  }
  void look() {
    const std::scoped_lock lock(mutex_);
    peak_ = std::max(peak_, now());
  }
  std::int64_t peak() const { return peak_; }

 private:
  std::mutex mutex_;
  std::int64_t peak_ = 0;
};

// P25: neither way copies the state. Of 150 MiB, tensors of 16: two of them at most, by the ledger
// and by what the system says.
TEST(Load, TakesLittleMemoryAndSoDoesSaving) {
  Task task{.model = tiny_llama(2), .compute = DType::kF32};
  task.model.layers = 1;
  task.model.ffn = std::int64_t{1} << 18;
  const std::int64_t tensor = task.model.ffn * task.model.hidden * 4;
  const TemporaryFolder folder;
  run_layout(task, {}, [&](Rank& rank) {
    MemoryLedger& ledger = rank.backend.ledger();
    EXPECT_GT(ledger.current(Tier::kDevice), 9 * tensor);
    const auto measured = [&](const auto& work) {
      WatchedFiles files;
      SaveSession session(files, folder / "a", 0, 1, 2);
      const std::int64_t host = ledger.current(Tier::kHost), device = ledger.current(Tier::kDevice),
                         resident = WatchedFiles::now();
      ledger.reset_peaks();
      work(save_rank(session, rank.engine, rank));
      EXPECT_LE(ledger.peak(Tier::kHost) - host + ledger.peak(Tier::kDevice) - device, 2 * tensor);
      EXPECT_GT(files.peak(), 0);
      EXPECT_LE(files.peak() - resident, 2 * tensor);
      EXPECT_EQ(ledger.current(Tier::kHost), host);
    };
    // Pages of the state that nobody has touched yet would count as if loading took them.
    measured([&](const SaveRank& all) { save(all, head_of(1)); });
    {
      const auto files = real_files();
      SaveSession warm(*files, folder / "a", 0, 1);
      load(save_rank(warm, rank.engine, rank), 1);
    }
    measured([&](const SaveRank& all) { load(all, 1); });
    measured([&](const SaveRank& all) { save(all, head_of(2)); });
  });
}

}  // namespace
}  // namespace trireme
