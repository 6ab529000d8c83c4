// Disks that fail under the whole program: a bad file of a checkpoint (R10), short counts and
// interruptions everywhere (R12), a folder that takes no more at any moment (R22).
#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "recipes/train/run_leftovers.h"
#include "tests/faults_program/inner_run.h"
#include "tests/support/fault_count.h"
#include "tests/support/simulated_files.h"

namespace trireme {
namespace {

using test::InnerEnd;
using test::run_inside;
using test::told;
using testing::Fault;
using testing::SimulatedFiles;
using Words = std::vector<std::string>;
using Losses = std::vector<std::string>;

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// Trained for so many steps without faults.
std::unique_ptr<SimulatedFiles> trained(int steps) {
  auto files = std::make_unique<SimulatedFiles>();
  test::put_tiny_recipe(*files);
  const InnerEnd end = run_inside(*files, {"train", "tiny.cfg", join("--train.steps=", steps)});
  EXPECT_EQ(end.code, 0) << end.err;
  return files;
}

const Losses& quiet_losses() {
  static const Losses losses = told(*trained(3), "loss");
  return losses;
}

bool is_file_of(const std::string& path, const std::string& step, const std::string& name) {
  return path.find(step) != path.npos && path.ends_with(name);
}

// R10.
TEST(BadFile, OfTheNewestIsNamedAndTheOlderTaken) {
  test::FaultCount count{.row = "R10", .what = "unreadable files of checkpoints, through train"};
  for (const std::string name : {"ranks-0.h5", "manifest.json", "checkpoint.h5", "recipe.cfg"}) {
    const auto files = trained(2);
    std::int64_t fired = 0;
    files->trouble({.broken = [&](const std::string& path) {
      const bool hit = is_file_of(path, "step-000002", name);
      fired += hit ? 1 : 0;
      return hit;
    }});
    const InnerEnd end = run_inside(*files, {"train", "tiny.cfg", "--resume"});
    // The bad one is still in the way of saving step 2 again: that is a sentence, or it gave way.
    EXPECT_SAYS(end.err, "step-000002");
    EXPECT_SAYS(end.err, name);
    EXPECT_SAYS(end.err, "step-000001");
    files->trouble({});
    const InnerEnd calm = run_inside(*files, {"train", "tiny.cfg", "--resume"});
    EXPECT_EQ(calm.code, 0) << calm.err;
    const bool equal = told(*files, "loss") == quiet_losses();
    EXPECT_TRUE(equal) << name;
    ++count.runs;
    count.injected += fired;
    count.lost += equal ? 0 : 1;
  }
  test::tell(count);
}

TEST(BadFile, OfTheOnlyOneEndsTheRun) {
  const auto files = trained(1);
  files->trouble({.broken = [](const std::string& path) { return path.ends_with("ranks-0.h5"); }});
  const InnerEnd end = run_inside(*files, {"train", "tiny.cfg", "--resume"});
  EXPECT_EQ(end.code, 1);
  EXPECT_SAYS(end.err, "ranks-0.h5");
  EXPECT_EQ(told(*files, "loss").size(), 1u) << "the run's lines are gone";
}

TEST(BadFile, AllOfThemAreListedByVerify) {
  const auto files = trained(2);
  files->trouble({.broken = [](const std::string& path) {
    return path.ends_with(".h5") || path.ends_with("recipe.cfg");
  }});
  const InnerEnd end = run_inside(*files, {"checkpoint", "verify", "run"});
  EXPECT_EQ(end.code, 1);
  for (const std::string step : {"step-000001", "step-000002"})
    for (const std::string name : {"ranks-0.h5", "checkpoint.h5", "recipe.cfg"})
      EXPECT_SAYS(end.out + end.err, step + "/" + name);
}

// Every file of the tree below `folder`, by path.
std::map<std::string, std::string> bytes_below(Files& files, const std::string& folder) {
  std::map<std::string, std::string> all;
  for (const std::string& name : files.list(folder)) {
    const std::string path = path_join(folder, name);
    if (files.status(path).kind == FileKind::kDirectory)
      all.merge(bytes_below(files, path));
    else
      all[path] = read_whole(files, path);
  }
  return all;
}

// R12: tokenize, train and save, load and go on.
void whole_life(Files& files) {
  const auto must = [&](const Words& words) {
    const InnerEnd end = run_inside(files, words);
    EXPECT_EQ(end.code, 0) << words[0] << ": " << end.err;
  };
  test::put_tiny_recipe(files);
  must({"tokenize", "text", "tokens.h5"});
  must({"train", "tiny.cfg", "--data.text=", "--data.tokens=tokens.h5", "--train.steps=2"});
  must({"train", "tiny.cfg", "--data.text=", "--data.tokens=tokens.h5", "--resume"});
}

TEST(ShortCounts, AndInterruptionsChangeNoByte) {
  test::FaultCount count{.row = "R12", .what = "EINTR, 1 byte, EINTR, half: tokenize to resume"};
  SimulatedFiles quiet, stuttering({.stutter = true});
  whole_life(quiet);
  whole_life(stuttering);
  count.runs = 1;
  count.injected = stuttering.fired();
  stuttering.trouble({});
  EXPECT_EQ(read_whole(quiet, "tokens.h5"), read_whole(stuttering, "tokens.h5"));
  EXPECT_EQ(told(quiet, "loss"), told(stuttering, "loss"));
  const auto expected = bytes_below(quiet, "run/checkpoints");
  const auto found = bytes_below(stuttering, "run/checkpoints");
  EXPECT_GE(expected.size(), 12u);
  for (const auto& [path, bytes] : expected) {
    const auto other = found.find(path);
    const bool equal = other != found.end() && other->second == bytes;
    EXPECT_TRUE(equal) << path;
    count.lost += equal ? 0 : 1;
  }
  test::tell(count);
}

// R22: from its k-th call on, everything in the folder (or one file) fails. A sentence, exit 1 (or
// all was done), and what was saved goes on to the losses of a quiet run: nothing is lost in
// silence.
test::FaultCount fail_from_each_call(const std::string& below, std::int64_t stride) {
  test::FaultCount count{.row = "R22"};
  for (std::int64_t k = 1;; k += stride) {
    SimulatedFiles files;
    test::put_tiny_recipe(files);
    std::int64_t seen = 0, fired = 0;
    const auto due = [&](const std::string& path) {
      if (path.find(below) != 0 || ++seen < k) return false;
      ++fired;
      return true;
    };
    files.trouble({.broken = due});
    const InnerEnd end = run_inside(files, {"train", "tiny.cfg"});
    files.trouble({});
    if (fired == 0) return count;
    ++count.runs;
    count.injected += fired;
    const bool told_it = end.code == 0 || (end.code == 1 && end.err.find(below) != end.err.npos);
    EXPECT_TRUE(told_it) << "call " << k << ": exit " << end.code << ": " << end.err;
    const Losses losses = told(files, "loss");
    const bool prefix =
        losses.size() <= 3 && std::equal(losses.begin(), losses.end(), quiet_losses().begin());
    const bool silent = end.code == 0 && losses != quiet_losses();
    EXPECT_TRUE(prefix && !silent) << "call " << k << ": exit " << end.code << ": " << end.err;
    InnerEnd again = run_inside(files, {"train", "tiny.cfg", "--resume"});
    if (again.code != 0) again = run_inside(files, {"train", "tiny.cfg", "--restart"});
    const bool right = again.code == 0 && told(files, "loss") == quiet_losses();
    EXPECT_TRUE(right) << "call " << k << ": " << again.err;
    if (!told_it || !prefix || silent || !right) ++count.lost;
    if (count.lost > 3) return count;
  }
}

TEST(FolderTakesNoMore, MetricsAtEveryCall) {
  auto count = fail_from_each_call("run/metrics.jsonl", 1);
  count.what = "metrics.jsonl fails from each of its calls on";
  test::tell(count);
}

TEST(FolderTakesNoMore, LogAtEveryCall) {
  auto count = fail_from_each_call("run/log.txt", 3);
  count.what = "log.txt fails from every third of its calls on";
  test::tell(count);
}

TEST(FolderTakesNoMore, AllOfItAtEveryCall) {
  auto count = fail_from_each_call("run", 17);
  count.what = "train.folder fails from every 17th of its calls on";
  test::tell(count);
}

// R22: the writer of metrics.jsonl is killed at any byte. On resume no line is broken or doubled.
TEST(KilledAppend, LeavesNoBrokenOrDoubledLine) {
  test::FaultCount count{.row = "R22",
                         .what = "metrics.jsonl cut at every byte, resumed at a step"};
  const auto whole = trained(3);
  const std::string text = read_whole(*whole, "run/metrics.jsonl");
  std::vector<std::size_t> ends{0};
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\n') ends.push_back(i + 1);
  ASSERT_EQ(ends.size(), 4u);
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    for (std::int64_t step = 0; step <= 3; ++step) {
      SimulatedFiles files;
      files.make_directories("run");
      write_whole_atomically(files, "run/metrics.jsonl", text.substr(0, cut));
      keep_run_until(files, "run", step);
      std::size_t kept = 0;  // of the lines that were whole, those until the step
      for (std::size_t line = 1; line <= static_cast<std::size_t>(step); ++line)
        if (ends[line] <= cut) kept = ends[line];
      const bool right = read_whole(files, "run/metrics.jsonl") == text.substr(0, kept);
      EXPECT_TRUE(right) << "cut at " << cut << ", step " << step;
      ++count.runs;
      count.injected += cut < text.size() ? 1 : 0;
      count.lost += right ? 0 : 1;
    }
  test::tell(count);
}

// The suite can fail: lines that are written without anybody looking are found to be missing.
TEST(PlantedBug, ALineThatIsLostInSilenceIsFound) {
  const auto files = trained(3);
  const std::string text = read_whole(*files, "run/metrics.jsonl");
  write_whole_atomically(*files, "run/metrics.jsonl", text.substr(0, text.find('\n') + 1));
  EXPECT_NE(told(*files, "loss"), quiet_losses());
  const InnerEnd end = run_inside(*files, {"train", "tiny.cfg", "--resume"});
  EXPECT_NE(told(*files, "loss"), quiet_losses()) << end.err;
}

}  // namespace
}  // namespace trireme
