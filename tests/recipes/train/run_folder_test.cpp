// The folder of a run between two starts: locks, leftovers, failures, recipes that may change.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/error.h"
#include "recipes/cli/keys.h"
#include "recipes/cli/validate.h"
#include "recipes/cli/values.h"
#include "recipes/train/last_failure.h"
#include "recipes/train/recipe_changes.h"
#include "recipes/train/run_leftovers.h"
#include "recipes/train/run_lock.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

using testing::sentence_of;
using testing::TemporaryFolder;

class RunFolderTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    const auto file = files_->open(folder_ / name, OpenMode::kCreate);
    file->append(text);
    file->close();
  }
  std::string read(const std::string& name) { return read_whole(*files_, folder_ / name); }

  TemporaryFolder folder_;
  std::unique_ptr<Files> files_ = real_files();
};

// A process of its own that does nothing until it is killed.
class Sleeper {
 public:
  Sleeper() : pid_(fork()) {
    if (pid_ == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (pid_ == 0) pause();
  }
  ~Sleeper() {
    kill();
    waitpid(pid_, nullptr, 0);
  }
  // It stays a zombie until it is waited for.
  void kill() {
    ::kill(pid_, SIGKILL);
    siginfo_t info;
    waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

// As another process would see itself.
ProcessIdentity identity_of(Files& files, pid_t pid) {
  ProcessIdentity found = this_process(files);
  found.pid = pid;
  const std::int64_t first = found.born;  // it was born later
  while (!is_alive(files, found) && found.born < first + 100000) ++found.born;
  return found;
}

TEST_F(RunFolderTest, ALockIsHeldUntilItsRunEnds) {
  const ProcessIdentity self = this_process(*files_);
  EXPECT_TRUE(is_alive(*files_, self));
  {
    const RunLock lock(*files_, folder_.path(), self);
    lock.expect_held();
    EXPECT_EQ(files_->list(folder_.path()).size(), 1u);
  }
  EXPECT_TRUE(files_->list(folder_.path()).empty());
}

TEST_F(RunFolderTest, ALivingRunIsRefusedAndADeadOneIsTakenOver) {
  Sleeper other;
  const ProcessIdentity its = identity_of(*files_, other.pid());
  ASSERT_TRUE(is_alive(*files_, its));
  auto held = std::make_unique<RunLock>(*files_, folder_.path(), its);
  const auto take = [&] { const RunLock lock(*files_, folder_.path(), this_process(*files_)); };
  EXPECT_NE(
      sentence_of(take).find(join("process ", other.pid(), " of this machine trains into it")),
      std::string::npos)
      << sentence_of(take);
  EXPECT_EQ(files_->list(folder_.path()).size(), 1u) << "the refused one left its lock";
  other.kill();
  EXPECT_FALSE(is_alive(*files_, its));
  EXPECT_EQ(sentence_of(take), "");
  EXPECT_TRUE(files_->list(folder_.path()).empty());
  EXPECT_NE(sentence_of([&] { held->expect_held(); }), "");
}

// The same number, used again by another process: not the one that left the lock.
TEST_F(RunFolderTest, APidThatIsUsedAgainIsNoLivingRun) {
  ProcessIdentity before = this_process(*files_);
  before.born -= 1;
  write(join("lock.", before.host, ".", before.pid, ".", before.born), "");
  EXPECT_EQ(
      sentence_of([&] { const RunLock lock(*files_, folder_.path(), this_process(*files_)); }), "");
}

TEST_F(RunFolderTest, OfAnotherMachineNothingIsKnown) {
  write("lock.far-away.7.99", "");
  const std::string said =
      sentence_of([&] { const RunLock lock(*files_, folder_.path(), this_process(*files_)); });
  EXPECT_NE(
      said.find("process 7 of machine far-away trains into it; if that one has ended, remove "),
      std::string::npos)
      << said;
}

std::string line_of(int step) {
  return join("{\"step\": ", step,
              ", \"loss\": 1, \"grad_norm\": 1, \"lr\": 1, \"loss_scale\": 1, \"tokens\": 1, "
              "\"tokens_per_s\": 1, \"tflops\": 1, \"skipped\": 0, \"seconds\": 1}\n");
}

// R22: killed at any byte of an append; resumed from any step.
TEST_F(RunFolderTest, MetricsEndWithTheWholeLineOfTheResumedStep) {
  const std::string whole = line_of(1) + line_of(2) + line_of(3);
  int cuts = 0;
  for (std::size_t bytes = 0; bytes <= whole.size(); bytes += 3)
    for (int step = 0; step <= 4; ++step, ++cuts) {
      files_->remove_all(folder_ / "metrics.jsonl");
      write("metrics.jsonl", whole.substr(0, bytes));
      keep_run_until(*files_, folder_.path(), step);
      std::string expected;
      for (int s = 1; s <= step && expected.size() + line_of(s).size() <= bytes && s <= 3; ++s)
        expected += line_of(s);
      ASSERT_EQ(read("metrics.jsonl"), expected) << bytes << " bytes, step " << step;
    }
  EXPECT_GT(cuts, 300);
}

TEST_F(RunFolderTest, DoubledOrForeignLinesEndTheMetrics) {
  write("metrics.jsonl", line_of(1) + line_of(2) + line_of(2) + line_of(3));
  EXPECT_EQ(steps_told(*files_, folder_ / "metrics.jsonl"), 3);
  keep_run_until(*files_, folder_.path(), 3);
  EXPECT_EQ(read("metrics.jsonl"), line_of(1) + line_of(2));
  files_->remove(folder_ / "metrics.jsonl");
  write("metrics.jsonl", line_of(1) + "no metrics\n");
  EXPECT_EQ(steps_told(*files_, folder_ / "metrics.jsonl"), 1) << "there is something";
  keep_run_until(*files_, folder_.path(), 3);
  EXPECT_EQ(read("metrics.jsonl"), line_of(1));
}

TEST_F(RunFolderTest, OnlyOurFilesAreRemoved) {
  const std::vector<std::string> ours = {
      "metrics.jsonl",      "log.txt", "report.json", "trace.json.gz", "events.out.tfevents.1.host",
      "recipe.cfg.tmp-0123"};
  const std::vector<std::string> theirs = {"notes.txt", "metrics.jsonl.old", "report.json.bak"};
  for (const auto& names : {ours, theirs})
    for (const std::string& name : names) write(name, "x\n");
  for (const char* name : {"checkpoints", "checkpoints/step-000003", "checkpoints/mine"})
    files_->make_directories(folder_ / name);
  remove_run(*files_, folder_.path());
  EXPECT_EQ(files_->list(folder_.path()),
            (std::vector<std::string>{"checkpoints", "metrics.jsonl.old", "notes.txt",
                                      "report.json.bak"}));
  EXPECT_EQ(files_->list(folder_ / "checkpoints"), std::vector<std::string>{"mine"});
}

// R20.
TEST_F(RunFolderTest, FailuresInARowAreCountedByStepAndReason) {
  const std::string& folder = folder_.path();
  EXPECT_EQ(note_failure(*files_, folder, 5, "[rank 1: data 1] the disk is full"), 1);
  EXPECT_EQ(note_failure(*files_, folder, 5, "[rank 0: data 0] the disk is full"), 2);
  EXPECT_EQ(note_failure(*files_, folder, 6, "[rank 0: data 0] the disk is full"), 1);
  EXPECT_EQ(note_failure(*files_, folder, 6, "another\nreason"), 1);
  EXPECT_EQ(note_failure(*files_, folder, 6, "another\nreason"), 2);
  EXPECT_EQ(last_failure(*files_, folder)->reason, "another\nreason");
  files_->remove(folder_ / kFailureName);
  write(kFailureName, "nonsense");
  EXPECT_FALSE(last_failure(*files_, folder));
  EXPECT_EQ(note_failure(*files_, folder + "/missing", 1, "x"), 1);
}

Recipe recipe_with(const std::string& key, const std::string& value) {
  Recipe recipe = default_recipe();
  if (!key.empty()) {
    EXPECT_EQ(assign(*find_key(key), value, recipe), "");
  }
  resolve(recipe);
  return recipe;
}

TEST(RecipeChanges, WhatMayChangeIsFreeOrTold) {
  const Recipe saved = recipe_with("", "");
  const auto refused = [&](const std::string& key, const std::string& value) {
    return recipe_changes(saved, recipe_with(key, value)).refused;
  };
  const auto noted = [&](const std::string& key, const std::string& value) {
    return recipe_changes(saved, recipe_with(key, value)).noted;
  };
  EXPECT_EQ(
      refused("batch.global", "64"),
      std::vector<std::string>{join("batch.global = 64, the checkpoint has ", saved.batch.global)});
  for (const auto& [key, value] :
       {std::pair("model.layers", "7"), std::pair("model.dropout", "0.3"),
        std::pair("data.validation", "0.2"), std::pair("data.shuffle", "false"),
        std::pair("batch.sequence", "32"), std::pair("train.seed", "9"),
        std::pair("optimizer.name", "sgd"), std::pair("optimizer.beta2", "0.5"),
        std::pair("optimizer.label_smoothing", "0.1")}) {
    EXPECT_FALSE(refused(key, value).empty()) << key;
  }
  for (const auto& [key, value] :
       {std::pair("optimizer.lr", "1"), std::pair("optimizer.schedule", "linear"),
        std::pair("optimizer.clip", "3"), std::pair("data.skip", "4-5"),
        std::pair("precision.compute", "f16"), std::pair("train.steps", "5000")}) {
    EXPECT_TRUE(refused(key, value).empty()) << key;
    EXPECT_FALSE(noted(key, value).empty()) << key;
  }
  for (const auto& [key, value] :
       {std::pair("parallel.tensor", "2"), std::pair("zero.stage", "3"),
        std::pair("offload.optimizer", "host"), std::pair("recompute.mode", "full"),
        std::pair("batch.micro", "2"), std::pair("parallel.threads", "3"),
        std::pair("train.log_every", "5"), std::pair("train.keep", "5"),
        std::pair("data.text", "elsewhere"), std::pair("device.memory", "3GiB")}) {
    EXPECT_TRUE(refused(key, value).empty()) << key;
    EXPECT_TRUE(noted(key, value).empty()) << key;
  }
}

}  // namespace
}  // namespace trireme
