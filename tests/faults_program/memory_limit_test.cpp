// device.memory one byte below what the program says it needs is a refusal before anything is done.
#include <gtest/gtest.h>

#include <string>

#include "framework/base/error.h"
#include "tests/faults_program/inner_run.h"
#include "tests/support/fault_count.h"
#include "tests/support/simulated_files.h"

namespace trireme {
namespace {

using test::InnerEnd;
using test::run_inside;
using testing::SimulatedFiles;

int exit_with(std::int64_t bytes, std::string* said = nullptr) {
  SimulatedFiles files;
  test::put_tiny_recipe(files);
  const InnerEnd end =
      run_inside(files, {"train", "tiny.cfg", "--train.steps=1", join("--device.memory=", bytes)});
  if (said) *said = end.err;
  return end.code;
}

std::int64_t printed_need() {
  SimulatedFiles files;
  test::put_tiny_recipe(files);
  const InnerEnd end = run_inside(files, {"memory", "tiny.cfg", "--json"});
  const std::string mark = "\"needed\": ";
  const std::size_t at = end.out.find(mark);
  EXPECT_NE(at, std::string::npos) << end.out;
  return at == std::string::npos ? 0 : std::stoll(end.out.substr(at + mark.size()));
}

TEST(MemoryLimit, OneByteLessThanNeededIsRefused) {
  std::int64_t low = 1, high = std::int64_t{64} << 20;  // fails, works
  ASSERT_EQ(exit_with(high), 0);
  test::FaultCount count{.row = "R16", .what = "device.memory below the need"};
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    std::string said;
    const int code = exit_with(middle, &said);
    (code == 0 ? high : low) = middle;
    ++count.runs;
    if (code == 0) continue;
    ++count.injected;
    const bool sentence = (code == 1 || code == 2) && said.find("device.memory") != said.npos;
    EXPECT_TRUE(sentence) << code << ": " << said;
    count.lost += sentence ? 0 : 1;
  }
  // What is printed leaves out the workspace of kernels, and says so; here that is a few numbers.
  const std::int64_t printed = printed_need();
  EXPECT_GE(high, printed);
  EXPECT_LE(high, printed + 4096);
  EXPECT_NE(exit_with(printed - 1), 0);
  test::tell(count);
}

}  // namespace
}  // namespace trireme
