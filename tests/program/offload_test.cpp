// Runs with states on a disk that is missing, full, read-only, removed or left behind: one
// sentence, an exit code, whole steps, and nothing left.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "tests/program/harness/program_run.h"

namespace trireme::testing {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

Words on_disk(Words more = {}) {
  Words flags = {"--parallel.data=2",         "--zero.stage=3",
                 "--recompute.mode=full",     "--offload.optimizer=disk",
                 "--offload.gradients=disk",  "--offload.parameters=disk",
                 "--offload.activations=disk"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

// A folder of memory of its own, if this user may mount one.
class Mounted {
 public:
  Mounted(std::string path, const std::string& size, bool read_only) : path_(std::move(path)) {
    fs::create_directory(path_);
    const int flags = read_only ? MS_RDONLY : 0;
    if (mount("tmpfs", path_.c_str(), "tmpfs", static_cast<unsigned long>(flags),
              ("size=" + size).c_str()) != 0)
      why_ = std::strerror(errno);
  }
  ~Mounted() {
    if (why_.empty()) umount(path_.c_str());
  }
  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;
  const std::string& path() const { return path_; }
  const std::string& why_not() const { return why_; }

 private:
  std::string path_, why_;
};

class OffloadRun : public ::testing::Test {
 protected:
  TinyRun run_;

  void expect_whole_steps() const {
    std::int64_t step = 0;
    for (const std::string& line : lines_of(text_of_file(run_.folder() + "/metrics.jsonl"))) {
      ASSERT_TRUE(nlohmann::json::accept(line)) << line;
      EXPECT_EQ(nlohmann::json::parse(line)["step"], ++step);
    }
  }
  void expect_one_sentence(const ProgramEnd& end, int code, const Words& parts) const {
    EXPECT_EQ(end.code, code) << end.err;
    const std::size_t at = end.err.find("trireme: ");
    ASSERT_NE(at, std::string::npos) << end.err;
    EXPECT_EQ(lines_of(end.err.substr(at)).size(), 1u) << end.err.substr(at);
    for (const std::string& part : parts)
      EXPECT_NE(end.err.find(part, at), std::string::npos) << part << "\n" << end.err.substr(at);
    EXPECT_EQ(end.out, "");
    EXPECT_FALSE(fs::exists(run_.folder() + "/offload"));
    EXPECT_FALSE(fs::exists(run_.folder() + "/report.json"));
    expect_whole_steps();
  }
  // Until a step was written; then `act`.
  template <typename Act>
  ProgramEnd interrupt(const Words& flags, const Act& act) {
    fs::remove_all(run_.folder());
    Words long_run = on_disk(flags);
    long_run.push_back("--train.steps=1000000");
    StartedProgram program(run_.train(long_run));
    EXPECT_TRUE(program.wait_until([&] { return column(run_.folder(), "loss").size() >= 2; }));
    act(program);
    return program.end();
  }
};

// What an earlier run told is still there after a folder was refused.
TEST_F(OffloadRun, AFolderThatCannotBeUsedIsRefusedBeforeAnythingIsLost) {
  ASSERT_EQ(run_to_end(run_.train(on_disk())).code, 0);
  const std::string metrics = text_of_file(run_.folder() + "/metrics.jsonl");
  EXPECT_FALSE(fs::exists(run_.folder() + "/offload"));
  write_file(run_ / "file", "text");
  const std::pair<std::string, std::string> cases[] = {
      {run_ / "nowhere", "does not exist; make it first"},
      {run_ / "file", "is not a folder"},
      {run_ / "file/inside", "file/inside"}};
  for (const auto& [folder, sentence] : cases) {
    const ProgramEnd end = run_to_end(run_.train(on_disk({"--offload.folder=" + folder})));
    EXPECT_EQ(end.code, 2) << end.err;
    EXPECT_NE(end.err.find("offload.folder = " + folder), std::string::npos) << end.err;
    EXPECT_NE(end.err.find(sentence), std::string::npos) << end.err;
    EXPECT_EQ(text_of_file(run_.folder() + "/metrics.jsonl"), metrics);
    EXPECT_TRUE(fs::exists(run_.folder() + "/report.json"));
  }
}

TEST_F(OffloadRun, AReadOnlyFolderIsRefused) {
  const Mounted disk(run_ / "disk", "1M", true);
  if (!disk.why_not().empty()) GTEST_SKIP() << "mount: " << disk.why_not();
  expect_one_sentence(run_to_end(run_.train(on_disk({"--offload.folder=" + disk.path()}))), 2,
                      {"offload.folder = " + disk.path(), "Read-only file system"});
}

TEST_F(OffloadRun, ADiskThatIsTooSmallIsRefusedBeforeTheFirstStep) {
  const Mounted disk(run_ / "disk", "64k", false);
  if (!disk.why_not().empty()) GTEST_SKIP() << "mount: " << disk.why_not();
  expect_one_sentence(run_to_end(run_.train(on_disk({"--offload.folder=" + disk.path()}))), 1,
                      {disk.path() + "/rank-", "bytes is to be made in", "but the disk has only"});
  EXPECT_TRUE(column(run_.folder(), "loss").empty());
  EXPECT_TRUE(fs::is_empty(disk.path()));
}

TEST_F(OffloadRun, AFolderRemovedUnderneathEndsTheRun) {
  const ProgramEnd end =
      interrupt({}, [&](StartedProgram&) { fs::remove_all(run_.folder() + "/offload/rank-1"); });
  expect_one_sentence(end, 1, {"rank 1", "/offload/rank-1/", "is no longer there"});
}

TEST_F(OffloadRun, ACutFileEndsTheRun) {
  const ProgramEnd end = interrupt({}, [&](StartedProgram&) {
    fs::resize_file(run_.folder() + "/offload/rank-0/optimizer", 0);
  });
  expect_one_sentence(end, 1, {"rank 0", "/offload/rank-0/optimizer"});
}

TEST_F(OffloadRun, TermEndsAfterTheStepAndLeavesNoFiles) {
  const ProgramEnd end = interrupt({}, [](StartedProgram& program) { program.signal(SIGTERM); });
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_FALSE(fs::exists(run_.folder() + "/offload"));
  EXPECT_TRUE(fs::exists(run_.folder() + "/report.json"));
  expect_whole_steps();
}

// A killed run cannot clean up; the next one in its folder does, with fewer ranks or without
// offload too.
TEST_F(OffloadRun, WhatAKilledRunLeftIsRemovedByTheNext) {
  const std::string scratch = run_.folder() + "/offload";
  const Words nexts[] = {on_disk(), {"--zero.stage=1", "--offload.optimizer=disk"}, {}};
  for (const Words& next : nexts) {
    interrupt({}, [](StartedProgram& program) { program.signal(SIGKILL); });
    EXPECT_TRUE(fs::exists(scratch + "/rank-1/optimizer"));
    const ProgramEnd end = run_to_end(run_.train(next));
    EXPECT_EQ(end.code, 0) << end.err;
    EXPECT_FALSE(fs::exists(scratch));
    EXPECT_EQ(column(run_.folder(), "loss").size(), 3u);
  }
}

// Somebody's own files beside ours stay.
TEST_F(OffloadRun, AGivenFolderStaysWithWhatIsInIt) {
  fs::create_directories(run_ / "disk/rank-7");
  write_file(run_ / "disk/notes", "mine");
  ASSERT_EQ(run_to_end(run_.train(on_disk({"--offload.folder=" + (run_ / "disk")}))).code, 0);
  EXPECT_EQ(text_of_file(run_ / "disk/notes"), "mine");
  EXPECT_TRUE(fs::exists(run_ / "disk/rank-7"));
  EXPECT_FALSE(fs::exists(run_ / "disk/rank-0"));
}

// Nothing on a disk changes a bit, and evaluation and samples come from there too.
TEST_F(OffloadRun, GivesTheBitsOfMemory) {
  const Words common = {"--parallel.data=2",      "--zero.stage=3",
                        "--recompute.mode=full",  "--train.evaluate_every=1",
                        "--train.sample_every=2", "--batch.micro=4"};
  ASSERT_EQ(run_to_end(run_.train(common)).code, 0);
  const auto loss = column(run_.folder(), "loss"), norm = column(run_.folder(), "grad_norm"),
             validation = column(run_.folder(), "validation_loss");
  ASSERT_EQ(validation.size(), 3u);
  Words moved = on_disk({"--train.evaluate_every=1", "--train.sample_every=2", "--batch.micro=4",
                         "--zero.reshard=step"});
  ASSERT_EQ(run_to_end(run_.train(moved)).code, 0);
  EXPECT_EQ(column(run_.folder(), "loss"), loss);
  EXPECT_EQ(column(run_.folder(), "grad_norm"), norm);
  EXPECT_EQ(column(run_.folder(), "validation_loss"), validation);
}

}  // namespace
}  // namespace trireme::testing
