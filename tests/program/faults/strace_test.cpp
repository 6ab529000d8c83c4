// R24 under strace, where it is installed and may trace: what libhdf5 opens past our own files
// would show here.
#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "framework/data/token_seal.h"
#include "tests/faults_hostile/hdf5_bombs.h"
#include "tests/program/harness/program_run.h"
#include "tests/support/fault_count.h"

namespace trireme {
namespace {

using namespace testing;

TEST(HostileTokens, OpenNoOtherFileAndLoadNothing) {
  const TinyRun tiny;
  const TemporaryFolder folder;
  const std::string log = folder / "log";
  const std::vector<std::string> strace = {"strace", "-f", "-e", "trace=open,openat", "-o", log};
  std::vector<std::string> probe = strace;
  probe.push_back("/bin/true");
  if (run_to_end(probe).code != 0) GTEST_SKIP() << "skipped: no strace, or it may not trace";
  test::FaultCount count{.row = "R24", .what = "HDF5 traps as data.tokens, under strace"};
  for (const test::Bomb& bomb : test::make_bombs(folder.path())) {
    const auto file = real_files()->open(bomb.path, OpenMode::kReadWrite);
    if (file->size() <= (1 << 20))
      seal_token_file(*file, {std::max<std::int64_t>(bomb.offset, 4096), bomb.offset > 0 ? 10 : 0});
    file->close();
    std::vector<std::string> words = strace;
    for (const std::string& word : tiny.train({"--data.text=", "--data.tokens=" + bomb.path}))
      words.push_back(word);
    const ProgramEnd end =
        run_to_end(words, {.environment = {{"HDF5_PLUGIN_PATH", folder / "plugins"}}});
    const std::string opened = text_of_file(log);
    const bool seen = opened.find(bomb.path) != opened.npos;
    EXPECT_TRUE(seen) << bomb.name << ": the file itself was not opened; the log shows nothing";
    const bool followed =
        opened.find("secret") != opened.npos || opened.find("plugins") != opened.npos;
    EXPECT_FALSE(followed) << bomb.name;
    const bool told = end.code == 1 && end.err.find(bomb.path) != end.err.npos;
    EXPECT_TRUE(told) << bomb.name << ": exit " << end.code << ": " << end.err;
    ++count.runs;
    ++count.injected;
    count.lost += seen && told && !followed ? 0 : 1;
  }
  test::tell(count);
}

}  // namespace
}  // namespace trireme
