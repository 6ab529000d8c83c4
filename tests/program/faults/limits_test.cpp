// Limits of a process: file size, open files, address space. Each is a sentence and exit 1, never a
// signal, and never silence.
#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "tests/program/harness/program_run.h"
#include "tests/support/fault_count.h"

namespace trireme {
namespace {

using namespace testing;

std::vector<std::string> limited(const std::string& limit, const std::vector<std::string>& words) {
  std::vector<std::string> all = {"/bin/sh", "-c", limit + "; exec \"$@\"", "sh"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

const std::vector<std::string>& quiet_losses(const TinyRun& tiny) {
  static const std::vector<std::string> losses = [&] {
    EXPECT_EQ(run_to_end(tiny.train()).code, 0);
    return column(tiny.folder(), "loss");
  }();
  return losses;
}

// Exit 0 with the quiet losses, or not 0 and something said. "" if so.
std::string wrong(const TinyRun& tiny, const ProgramEnd& end) {
  if (end.code == 0)
    return column(tiny.folder(), "loss") == quiet_losses(tiny) ? "" : "other losses";
  if (end.code < 0 || end.code >= 128) return join("ended by ", end.code, ": ", end.err);
  // Below what the system's loader and libgomp need, they are the ones to speak.
  const bool loader = end.code == 127 && end.err.find("shared") != end.err.npos;
  const bool gomp = end.code == 1 && end.err.find("libgomp: Out of memory") != end.err.npos;
  if (loader || gomp) return "";
  const bool said = end.err.find("trireme: ") != end.err.npos;
  return end.code == 1 && said ? "" : join("exit ", end.code, ": ", end.err);
}

// Tries the limits; the first must fail, the last must work, else the range shows nothing.
void try_limits(const std::string& what, const std::string& limit,
                const std::vector<std::int64_t>& values, const std::vector<std::string>& flags) {
  const TinyRun tiny;
  quiet_losses(tiny);
  test::FaultCount count{.row = "R9", .what = what};
  int last = -1;
  for (const std::int64_t value : values) {
    const ProgramEnd end = run_to_end(limited(join(limit, " ", value), tiny.train(flags)));
    ++count.runs;
    count.injected += end.code != 0 ? 1 : 0;
    const std::string problem = wrong(tiny, end);
    EXPECT_EQ(problem, "") << limit << " " << value;
    count.lost += problem.empty() ? 0 : 1;
    last = end.code;
  }
  EXPECT_EQ(last, 0) << "not even " << values.back() << " is enough: the range shows nothing";
  const ProgramEnd calm = run_to_end(tiny.train(flags));
  EXPECT_EQ(calm.code, 0) << calm.err;
  EXPECT_EQ(column(tiny.folder(), "loss"), quiet_losses(tiny));
  test::tell(count);
}

// In blocks of 512 bytes; what is said goes into a file, too. SIGXFSZ must not end the program.
TEST(Limits, OfFileSize) {
  try_limits("RLIMIT_FSIZE", "ulimit -f", {1, 8, 32, 64, 128, 256, 100000},
             {"--train.checkpoint_every=1"});
}

TEST(Limits, OfOpenFiles) {
  try_limits("RLIMIT_NOFILE", "ulimit -n", {4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 64},
             {"--train.checkpoint_every=1", "--parallel.data=2"});
}

// In KiB; most of it is code and threads' stacks, which are only reserved.
TEST(Limits, OfAddressSpace) {
  std::vector<std::int64_t> values;
  // Between those two ranges memory ends inside libhdf5, which then may read through a null
  // pointer.
  for (std::int64_t kib = 60000; kib < 110000; kib += 5000) values.push_back(kib);
  for (std::int64_t kib = 200000; kib <= 400000; kib += 50000) values.push_back(kib);
  values.push_back(4000000);
  try_limits("RLIMIT_AS", "ulimit -v", values, {"--train.checkpoint_every=1", "--parallel.data=2"});
}

}  // namespace
}  // namespace trireme
