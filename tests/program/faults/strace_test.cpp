// R24 under strace, where it is installed and may trace: what libhdf5 opens past our own files
// would show here.
#include <gtest/gtest.h>

#include <filesystem>

#include "framework/base/error.h"
#include "framework/checkpoint/checkpoint_reader.h"
#include "framework/checkpoint/rest_hash.h"
#include "framework/data/token_seal.h"
#include "tests/faults_hostile/hdf5_bombs.h"
#include "tests/program/harness/program_run.h"
#include "tests/support/fault_count.h"

namespace trireme {
namespace {

using namespace testing;

using Words = std::vector<std::string>;

Words traced(const std::string& log, const Words& words) {
  Words all = {"strace", "-f", "-e", "trace=open,openat", "-o", log};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

bool may_trace(const std::string& log) { return run_to_end(traced(log, {"/bin/true"})).code == 0; }

bool followed(const std::string& opened) {
  return opened.find("secret") != opened.npos || opened.find("plugins") != opened.npos;
}

TEST(HostileTokens, OpenNoOtherFileAndLoadNothing) {
  const TinyRun tiny;
  const TemporaryFolder folder;
  const std::string log = folder / "log";
  if (!may_trace(log)) GTEST_SKIP() << "skipped: no strace, or it may not trace";
  test::FaultCount count{.row = "R24", .what = "HDF5 traps as data.tokens, under strace"};
  for (const test::Bomb& bomb : test::make_bombs(folder.path())) {
    const auto file = real_files()->open(bomb.path, OpenMode::kReadWrite);
    if (file->size() <= (1 << 20))
      seal_token_file(*file, {std::max<std::int64_t>(bomb.offset, 4096), bomb.offset > 0 ? 10 : 0});
    file->close();
    const ProgramEnd end =
        run_to_end(traced(log, tiny.train({"--data.text=", "--data.tokens=" + bomb.path})),
                   {.environment = {{"HDF5_PLUGIN_PATH", folder / "plugins"}}});
    const std::string opened = text_of_file(log);
    const bool seen = opened.find(bomb.path) != opened.npos;
    EXPECT_TRUE(seen) << bomb.name << ": the file itself was not opened; the log shows nothing";
    EXPECT_FALSE(followed(opened)) << bomb.name;
    const bool told = end.code == 1 && end.err.find(bomb.path) != end.err.npos;
    EXPECT_TRUE(told) << bomb.name << ": exit " << end.code << ": " << end.err;
    ++count.runs;
    ++count.injected;
    count.lost += seen && told && !followed(opened) ? 0 : 1;
  }
  test::tell(count);
}

// The checkpoint with the trap for its HDF5, in both kinds of files: the tensors' bytes lie behind
// it, and the manifest, which fits, says where.
void put_trap(Files& files, const std::string& checkpoint, const std::string& trap) {
  const std::string bomb = read_whole(files, trap);
  const std::string padding((4096 - bomb.size() % 4096) % 4096, '\0');
  Manifest manifest = read_manifest(files, checkpoint);
  for (StoredFile& stored : manifest.files) {
    if (!stored.name.ends_with(".h5")) continue;
    const std::string path = path_join(checkpoint, stored.name);
    const std::string bytes = bomb + padding + read_whole(files, path);
    write_file(path, bytes);
    stored.bytes = static_cast<std::int64_t>(bytes.size());
    for (StoredPiece& piece : stored.pieces)
      piece.offset += static_cast<std::int64_t>(bomb.size() + padding.size());
    stored.rest_hash = rest_hash(*files.open(path, OpenMode::kRead), stored);
  }
  write_file(path_join(checkpoint, kManifestName), encode(manifest));
}

// Who can write a manifest that fits can put in other tensors, too; but HDF5 that leads elsewhere
// is not even looked at: the run goes on as it would have, and nothing else is opened.
TEST(HostileCheckpoint, IsReadByItsManifestAlone) {
  const TinyRun tiny;
  const TemporaryFolder folder;
  const std::string log = folder / "log", run = folder / "run";
  if (!may_trace(log)) GTEST_SKIP() << "skipped: no strace, or it may not trace";
  const Words all = {"--optimizer.schedule=constant", "--train.checkpoint_every=1"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), all.begin(), all.end());
    return tiny.train(more);
  };
  ASSERT_EQ(run_to_end(with({"--train.steps=3"})).code, 0);
  const Words quiet = column(tiny.folder(), "loss");
  ASSERT_EQ(run_to_end(with({"--train.steps=2"})).code, 0);
  const auto files = real_files();
  test::FaultCount count{.row = "R24", .what = "HDF5 traps in a checkpoint, under strace"};
  for (const test::Bomb& bomb : test::make_bombs(folder.path())) {
    SCOPED_TRACE(bomb.name);
    std::filesystem::remove_all(run);
    std::filesystem::copy(tiny.folder(), run, std::filesystem::copy_options::recursive);
    for (const char* step : {"1", "2"})
      put_trap(*files, run + "/checkpoints/step-00000" + step, bomb.path);
    const ProgramOptions plugins{.environment = {{"HDF5_PLUGIN_PATH", folder / "plugins"}}};
    std::string opened;
    const auto must = [&](const Words& words) {
      const ProgramEnd end = run_to_end(traced(log, words), plugins);
      opened += text_of_file(log);
      EXPECT_EQ(end.code, 0) << end.err;
      return end.code == 0;
    };
    const bool verified = must({program(), "checkpoint", "verify", run});
    const bool went_on = must(with({"--train.steps=3", "--resume", "--train.folder=" + run}));
    const bool right = verified && went_on && column(run, "loss") == quiet &&
                       opened.find("step-000002/ranks-0.h5") != opened.npos && !followed(opened);
    EXPECT_TRUE(right);
    ++count.runs;
    ++count.injected;
    count.lost += right ? 0 : 1;
  }
  test::tell(count);
}

}  // namespace
}  // namespace trireme
