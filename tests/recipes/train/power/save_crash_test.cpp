// R6: saves of a tiny model's whole training state, under three layouts, by one process and by one
// for each rank. The power goes at every file call of the second save, what was not synced survives
// in 24 ways: the newest checkpoint is step n or n - 1, n once the save had returned, and has every
// bit that was saved.
#include <gtest/gtest.h>

#include <map>

#include "framework/base/error.h"
#include "framework/checkpoint/inspect.h"
#include "recipes/train/save_session.h"
#include "tests/parity/train_layout.h"
#include "tests/support/fault_count.h"
#include "tests/support/simulated_files.h"

namespace trireme {
namespace {

using namespace parity;
using testing::every_persistence;
using testing::Fault;
using testing::Persistence;
using testing::SimulatedFiles;
using testing::Troubles;

const std::string kRun = "run/checkpoints";

struct Saving {
  Layout layout;
  bool processes = false;  // a file for each rank
};

const Saving kSavings[] = {{{.mesh = {.data = 2, .tensor = 2}}, false},
                           {{.mesh = {.data = 3}, .zero_stage = 3}, true},
                           {{.mesh = {.pipeline = 2, .tensor = 2}, .zero_stage = 1}, true}};

// T of the reliability table with one layer, and half as wide: many crashes matter, not how many
// bytes are saved.
Task tiny_task() {
  return {.model = {.layers = 1,
                    .hidden = 16,
                    .heads = 4,
                    .kv_heads = 4,
                    .head_dim = 4,
                    .ffn = 32,
                    .vocab = 32,
                    .sequence = 8},
          .global_batch = 6};
}

// A disk and the sessions that save to it.
struct Trial {
  Trial(std::unique_ptr<SimulatedFiles> on, const Saving& saving) : disk(std::move(on)) {
    const int ranks = saving.layout.mesh.ranks();
    if (!saving.processes) sessions.push_back(std::make_unique<SaveSession>(*disk, kRun, 0, ranks));
    for (int rank = 0; saving.processes && rank < ranks; ++rank)
      sessions.push_back(std::make_unique<SaveSession>(*disk, kRun, rank, 1));
    failed.resize(static_cast<std::size_t>(ranks));
  }

  // By every rank.
  void save(Rank& rank, std::int64_t step) {
    const auto own = static_cast<std::size_t>(rank.mesh.world().rank());
    SaveSession& session = *sessions[sessions.size() == 1 ? 0 : own];
    try {
      trireme::save({&session, rank.engine, rank.mesh, rank.backend, rank.backend},
                    {.run = "toy", .step = step, .recipe = "[train]\n"});
    } catch (const std::exception&) {
      failed[own] = 1;
    }
  }
  bool returned() const { return failed == std::vector<char>(failed.size(), 0); }

  std::unique_ptr<SimulatedFiles> disk;
  std::vector<std::unique_ptr<SaveSession>> sessions;
  std::vector<char> failed;  // by rank
};

// What a restarted program sees: committed checkpoints, byte by byte, and `latest`.
std::string seen_on(Files& files) {
  std::string all;
  if (!files.exists(kRun)) return all;
  for (const std::string& name : files.list(kRun)) {
    const std::string path = path_join(kRun, name);
    all += name + "\n";
    if (name.find(".tmp") != name.npos) continue;
    if (files.status(path).kind == FileKind::kFile) all += read_whole(files, path);
    if (files.status(path).kind == FileKind::kDirectory)
      for (const std::string& inside : files.list(path))
        all += inside + read_whole(files, path_join(path, inside));
  }
  return all;
}

class Judge {
 public:
  explicit Judge(std::string name) : name_(std::move(name)) {}

  // A disk with both steps, as they must be.
  void expect(std::unique_ptr<SimulatedFiles> whole) { whole_ = std::move(whole); }

  void judge(const Trial& trial, std::int64_t call) {
    const bool returned = trial.returned();
    crashes += trial.disk->crashed() ? 1 : 0;
    // Each way for data, and the ways for names in turn.
    const std::vector<Persistence> choices = every_persistence();
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if (i % 4 != (static_cast<std::size_t>(call) + i / 4) % 4) continue;
      const Persistence& kept = choices[i];
      const auto after = trial.disk->restart(kept, static_cast<std::uint64_t>(call));
      ++restarts;
      const std::string& wrong = wrong_with(*after);
      const std::int64_t newest = newest_[seen_];
      const bool promised = newest == 2 || (newest == 1 && !returned);
      if (wrong.empty() && promised) {
        ++found[newest];
        continue;
      }
      if (lost++ == 0)
        first = join(name_, ", call ", call, " (", trial.disk->trace().back(), "), ",
                     testing::text_of(kept), returned ? ", returned" : "", ": step ", newest, "; ",
                     wrong);
    }
  }

  std::int64_t crashes = 0, restarts = 0, lost = 0;
  std::map<std::int64_t, std::int64_t> found;  // restarts by the newest step
  std::string first;                           // the first loss
  std::size_t disks() const { return wrong_.size(); }

 private:
  // Once for each content.
  const std::string& wrong_with(Files& files) {
    seen_ = seen_on(files);
    const auto [at, is_new] = wrong_.try_emplace(seen_);
    if (is_new) at->second = look(files);
    return at->second;
  }
  std::string look(Files& files) {
    try {
      CheckpointFolder folder(files, kRun);
      std::vector<std::string> refused;
      newest_[seen_] = folder.newest_good(refused).value_or(0);
      if (!refused.empty()) return refused[0];
      for (const std::int64_t step : folder.steps())
        if (!equal_arrays(CheckpointReader(files, folder.folder_of(step)),
                          CheckpointReader(*whole_, folder.folder_of(step))))
          return join("step ", step, " has other bits");
      const std::int64_t latest = folder.latest().value_or(0);
      return latest == 1 || latest == 2 ? "" : join("latest says ", latest);
    } catch (const Error& error) {
      return error.what();
    }
  }

  std::unique_ptr<SimulatedFiles> whole_;
  std::string name_, seen_;
  std::map<std::string, std::string> wrong_;    // by what is seen
  std::map<std::string, std::int64_t> newest_;  // likewise
};

std::unique_ptr<SimulatedFiles> copy_of(const SimulatedFiles& files, const Troubles& troubles) {
  auto copy =
      files.restart({.data = testing::KeptData::kAll, .names = testing::KeptNames::kAll}, 1);
  copy->trouble(troubles);
  return copy;
}

// Each `stride`-th call of the second save is the last one.
Judge crash_saves(const Saving& saving, std::int64_t stride, Troubles troubles = {}) {
  const Task task = tiny_task();
  const SampleSource source = random_samples(task.model, task.seed);
  Judge judge(text_of(saving.layout));
  std::unique_ptr<Trial> trial;
  std::unique_ptr<SimulatedFiles> after_1;
  bool done = false;
  run_layout(task, saving.layout, [&](Rank& rank) {
    const auto alone = [&](const auto& work) {
      rank.mesh.world().barrier();
      if (rank.first()) work();
      rank.mesh.world().barrier();
    };
    rank.engine.train(0, source);
    const auto begin = [&](std::unique_ptr<SimulatedFiles> disk) {
      trial = std::make_unique<Trial>(std::move(disk), saving);
    };
    alone([&] { begin(std::make_unique<SimulatedFiles>()); });
    trial->save(rank, 1);
    alone([&] {
      check(trial->returned(), "the first save failed");
      trial->disk->sync_all();
    });
    rank.engine.train(1, source);
    alone([&] {
      after_1 = copy_of(*trial->disk, {});
      begin(copy_of(*after_1, {}));
    });
    trial->save(rank, 2);
    alone([&] { judge.expect(copy_of(*trial->disk, {})); });
    for (std::int64_t k = 1; !done; k += stride) {
      alone([&] {
        troubles.plan = {.fault = Fault::kPowerOff, .at = k};
        begin(copy_of(*after_1, troubles));
      });
      trial->save(rank, 2);
      alone([&] {
        judge.judge(*trial, k);
        done = !trial->disk->crashed();
      });
    }
  });
  return judge;
}

class SaveCrash : public ::testing::TestWithParam<int> {};

TEST_P(SaveCrash, AtEveryCallTheNewestIsStepNOrTheOneBefore) {
  const Judge judge = crash_saves(kSavings[GetParam()], 1);
  EXPECT_EQ(judge.lost, 0) << judge.first;
  EXPECT_GT(judge.crashes, 100);
  for (const std::int64_t step : {1, 2}) EXPECT_GT(judge.found.at(step), 0);
  test::tell({.row = "R6",
              .what = "power cuts at every call of a save of a model",
              .runs = judge.restarts,
              .injected = judge.crashes * 6,
              .lost = judge.lost});
}

INSTANTIATE_TEST_SUITE_P(Layouts, SaveCrash, ::testing::Range(0, 3),
                         ::testing::PrintToStringParamName());

// Planted: one rank's file is not synced.
TEST(SaveCrash, AForgottenSyncIsFound) {
  const Troubles forgetful{
      .ignores_sync = [](const std::string& path) { return path.ends_with("ranks-2.h5"); }};
  EXPECT_GT(crash_saves(kSavings[1], 3, forgetful).lost, 0);
}

}  // namespace
}  // namespace trireme
