// Real full disks: a small tmpfs on which a save fails at different points. The run ends with a
// sentence, the earlier checkpoint is whole, nothing is left over, and with room the run goes on as
// the quiet one.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <filesystem>
#include <iostream>

#include "framework/base/error.h"
#include "tests/program/harness/program_run.h"
#include "tests/support/fault_count.h"

namespace trireme {
namespace {

using namespace testing;

// A disk in memory of its own size, if this process may mount one.
class SmallDisk {
 public:
  SmallDisk() { real_files()->make_directories(path()); }
  ~SmallDisk() {
    if (mounted_) umount2(path().c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mount(std::int64_t bytes) {
    mounted_ = ::mount("none", path().c_str(), "tmpfs", 0, join("size=", bytes).c_str()) == 0;
    return mounted_;
  }
  bool resize(std::int64_t bytes) {
    return ::mount("none", path().c_str(), "tmpfs", MS_REMOUNT, join("size=", bytes).c_str()) == 0;
  }
  std::string path() const { return folder_ / "disk"; }
  std::string run() const { return path() + "/run"; }
  std::int64_t free() const { return real_files()->free_space(path()); }

 private:
  TemporaryFolder folder_;
  bool mounted_ = false;
};

constexpr std::int64_t kRoomy = std::int64_t{64} << 20;

std::vector<std::string> train_on(const TinyRun& tiny, const SmallDisk& disk, bool resume = false) {
  std::vector<std::string> words =
      tiny.train({"--train.folder=" + disk.run(), "--train.checkpoint_every=1", "--train.keep=9"});
  words.push_back(resume ? "--resume" : "--restart");
  return words;
}

bool has_rubbish(const std::string& folder) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().filename().string().find(".tmp-") != std::string::npos) return true;
  return false;
}

struct Quiet {
  std::vector<std::string> losses;
  std::int64_t first = 0, all = 0;  // bytes on the disk after the first step, and in the end
};

Quiet quiet_run(const TinyRun& tiny) {
  Quiet quiet;
  for (const int steps : {1, 3}) {
    SmallDisk disk;
    EXPECT_TRUE(disk.mount(kRoomy));
    std::vector<std::string> words = train_on(tiny, disk);
    words.push_back(join("--train.steps=", steps));
    const ProgramEnd end = run_to_end(words);
    EXPECT_EQ(end.code, 0) << end.err;
    (steps == 1 ? quiet.first : quiet.all) = kRoomy - disk.free();
    quiet.losses = column(disk.run(), "loss");
  }
  return quiet;
}

TEST(FullDisk, EndsWithASentenceAndGoesOnWithRoom) {
  {
    SmallDisk probe;
    if (!probe.mount(1 << 20)) GTEST_SKIP() << "skipped: this process may not mount a tmpfs";
  }
  const TinyRun tiny;
  const Quiet quiet = quiet_run(tiny);
  ASSERT_EQ(quiet.losses.size(), 3u);
  test::FaultCount count{.row = "R9", .what = "a real disk is full in a save"};
  constexpr int kSizes = 8;
  for (int i = 0; i < kSizes; ++i) {
    const std::int64_t size = (quiet.first + (quiet.all - quiet.first) * i / kSizes) / 4096 * 4096;
    SCOPED_TRACE(join(size, " of ", quiet.all, " bytes"));
    SmallDisk disk;
    ASSERT_TRUE(disk.mount(size));
    const ProgramEnd end = run_to_end(train_on(tiny, disk));
    ++count.runs;
    ++count.injected;
    const bool sentence = end.code == 1 && (end.err.find("No space left") != end.err.npos ||
                                            end.err.find(" free") != end.err.npos);
    EXPECT_TRUE(sentence) << end.code << ": " << end.err;
    EXPECT_FALSE(has_rubbish(disk.path()));
    const std::string checkpoints = disk.run() + "/checkpoints";
    if (real_files()->exists(checkpoints) && !real_files()->list(checkpoints).empty()) {
      EXPECT_EQ(run_to_end({program(), "checkpoint", "verify", disk.run()}).code, 0);
    }
    ASSERT_TRUE(disk.resize(kRoomy));
    ProgramEnd again = run_to_end(train_on(tiny, disk, true));
    if (column(disk.run(), "loss").empty()) again = run_to_end(train_on(tiny, disk));
    const bool right = again.code == 0 && column(disk.run(), "loss") == quiet.losses;
    EXPECT_TRUE(right) << again.err;
    if (!sentence || !right) ++count.lost;
  }
  test::tell(count);
}

}  // namespace
}  // namespace trireme
