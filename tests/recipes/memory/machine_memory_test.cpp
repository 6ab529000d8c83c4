// Limits of machines that the test describes in a folder.
#include "recipes/memory/machine_memory.h"

#include <gtest/gtest.h>

#include "tests/support/faulty_files.h"

namespace trireme::testing {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

class MachineMemory : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) {
    files_->make_directories(folder_of(folder_ / path));
    write_whole_atomically(*files_, folder_ / path, text);
  }
  MemoryLimit limit(std::int64_t device_memory = 0, std::int64_t ranks = 1) {
    return memory_limit(*files_, device_memory, ranks, folder_ / "");
  }
  void ram(std::int64_t gib) {
    put("proc/meminfo", "MemTotal:       " + std::to_string(gib << 20) + " kB\nMemFree: 1 kB\n");
  }

  TemporaryFolder folder_;
  std::unique_ptr<Files> files_ = real_files();
};

TEST_F(MachineMemory, TheKeyWins) {
  ram(32);
  const MemoryLimit given = limit(2 * kGiB, 4);
  EXPECT_EQ(given.bytes, 2 * kGiB);
  EXPECT_TRUE(given.device_alone);
  EXPECT_EQ(given.source, "device.memory = 2.00 GiB");
}

TEST_F(MachineMemory, RamIsCutOverTheRanks) {
  ram(32);
  EXPECT_EQ(limit().bytes, 32 * kGiB);
  EXPECT_EQ(limit().source, "RAM 32.0 GiB");
  EXPECT_EQ(limit(0, 4).bytes, 8 * kGiB);
  EXPECT_EQ(limit(0, 4).source, "RAM 32.0 GiB / 4 ranks of this machine");
  EXPECT_FALSE(limit().device_alone);
}

TEST_F(MachineMemory, TheSmallestGroupOnTheWayUpHolds) {
  ram(64);
  put("proc/self/cgroup", "0::/a/b\n");
  put("sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(limit().bytes, 64 * kGiB);
  put("sys/fs/cgroup/a/memory.max", std::to_string(24 * kGiB) + "\n");
  EXPECT_EQ(limit(0, 2).bytes, 12 * kGiB);
  EXPECT_EQ(limit(0, 2).source, "cgroup limit 24.0 GiB / 2 ranks of this machine");
  put("sys/fs/cgroup/a/b/memory.max", std::to_string(6 * kGiB) + "\n");
  EXPECT_EQ(limit().bytes, 6 * kGiB);
  put("sys/fs/cgroup/a/b/memory.max", std::to_string(600 * kGiB) + "\n");
  put("sys/fs/cgroup/a/memory.max", std::to_string(500 * kGiB) + "\n");
  EXPECT_EQ(limit().source, "RAM 64.0 GiB") << "a limit above the RAM is none";
}

TEST_F(MachineMemory, OldGroupsAreRead) {
  ram(64);
  put("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/jobs/one\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  EXPECT_EQ(limit().source, "RAM 64.0 GiB");
  put("sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", std::to_string(8 * kGiB));
  EXPECT_EQ(limit().bytes, 8 * kGiB);
}

TEST_F(MachineMemory, UnknownIsSaid) {
  EXPECT_EQ(limit().bytes, 0);
  EXPECT_EQ(limit().source, "unknown");
}

}  // namespace
}  // namespace trireme::testing
