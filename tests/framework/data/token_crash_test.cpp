// Token files on a simulated disk: a power cut at every call of tokenize and of the cache.
#include <gtest/gtest.h>

#include <iostream>

#include "framework/base/error.h"
#include "framework/data/text_tokens.h"
#include "framework/data/token_file.h"
#include "tests/support/simulated_files.h"

namespace trireme {
namespace {

using testing::every_persistence;
using testing::Fault;
using testing::Persistence;
using testing::SimulatedCrash;
using testing::SimulatedFiles;
using testing::Troubles;

std::string some_text(char fill) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += fill + std::to_string(i * 7919 % 1000) + " ";
  return text;
}

std::string decoded(Files& files, const std::string& path) {
  const auto file = TokenFile::open(files, path);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(file->count()));
  file->copy(0, file->count(), 256, ids.data());
  return byte_tokenizer()->decode(ids);
}

// The text of the token file, "(none)", or the sentence that refuses it.
std::string found(Files& files, const std::string& path) {
  if (!files.exists(path)) return "(none)";
  try {
    return decoded(files, path);
  } catch (const Error& e) {
    return e.what();
  }
}

// Whether `call` was done before the power went. What it throws after that is nobody's to read:
// libhdf5's driver, for one, turns the crash into an Error.
template <typename Call>
bool done_before_the_crash(SimulatedFiles& files, const Call& call) {
  try {
    call();
  } catch (const SimulatedCrash&) {
    return false;
  } catch (const Error&) {
    EXPECT_TRUE(files.crashed());
  }
  return !files.crashed();
}

struct Tried {
  std::int64_t crashes = 0;
  std::int64_t restarts = 0;
  std::int64_t lost = 0;
  void print(const std::string& what) const {
    std::cout << "faults: " << what << ": " << crashes << " crash points, " << restarts
              << " restarts, " << lost << " lost\n";
  }
};

// Replaces a token file by another: old or new, whole, after a power cut; new once it returned.
Tried replace_under_crashes(const Troubles& troubles = {}) {
  const auto bytes = byte_tokenizer();
  const std::string before = some_text('a');
  const std::string after = some_text('b') + "longer";
  Tried tried;
  bool done = false;
  for (std::int64_t k = 1; !done; ++k) {
    SimulatedFiles files;
    write_whole_atomically(files, "old.txt", before);
    write_whole_atomically(files, "new.txt", after);
    tokenize_file(files, "old.txt", "tokens.h5", *bytes);
    files.sync_all();
    Troubles with = troubles;
    with.plan = {.fault = Fault::kCrash, .at = k};
    files.trouble(with);
    done =
        done_before_the_crash(files, [&] { tokenize_file(files, "new.txt", "tokens.h5", *bytes); });
    if (!done) ++tried.crashes;
    for (const Persistence& kept : every_persistence()) {
      const auto restarted = files.restart(kept, static_cast<std::uint64_t>(k));
      const std::string now = found(*restarted, "tokens.h5");
      ++tried.restarts;
      if (now != after && (done || now != before)) ++tried.lost;
    }
  }
  return tried;
}

TEST(TokenizeUnderPowerCuts, TheFileIsOldOrNewAndNewOnceItReturned) {
  const Tried tried = replace_under_crashes();
  EXPECT_GT(tried.crashes, 10);
  EXPECT_EQ(tried.lost, 0);
  tried.print("tokenize");
}

TEST(TokenizeUnderPowerCuts, PlantedBugsAreFound) {
  const auto of_file = [](const std::string& path) { return path.starts_with("tokens.h5.tmp"); };
  const auto of_folder = [](const std::string& path) { return path == "."; };
  EXPECT_GT(replace_under_crashes({.ignores_sync = of_file}).lost, 0);
  EXPECT_GT(replace_under_crashes({.ignores_sync = of_folder}).lost, 0);
}

// A cache may be lost, never wrong: whatever a power cut left, the next run has the tokens of its
// text. Counts as lost what was there and had to be rebuilt.
Tried cache_under_crashes(const Troubles& troubles = {}) {
  const auto bytes = byte_tokenizer();
  const std::string text = some_text('a');
  Tried tried;
  bool done = false;
  for (std::int64_t k = 1; !done; ++k) {
    SimulatedFiles files;
    write_whole_atomically(files, "text", text);
    files.sync_all();
    Troubles with = troubles;
    with.plan = {.fault = Fault::kCrash, .at = k};
    files.trouble(with);
    done = done_before_the_crash(files, [&] { cached_tokens(files, "text", "cache", *bytes); });
    if (!done) ++tried.crashes;
    for (const Persistence& kept : every_persistence()) {
      const auto restarted = files.restart(kept, static_cast<std::uint64_t>(k));
      const CachedTokens again = cached_tokens(*restarted, "text", "cache", *bytes);
      EXPECT_EQ(decoded(*restarted, again.path), text) << text_of(kept) << ", call " << k;
      ++tried.restarts;
      if (!again.note.empty()) ++tried.lost;
    }
  }
  return tried;
}

TEST(TokenCacheUnderPowerCuts, IsNeverWrong) {
  const Tried tried = cache_under_crashes();
  EXPECT_GT(tried.crashes, 10);
  EXPECT_EQ(tried.lost, 0);
  tried.print("token cache");
}

// Without the sync, a damaged cache has its name; it is found out and rebuilt, not believed.
TEST(TokenCacheUnderPowerCuts, ADamagedOneIsRebuilt) {
  const auto all = [](const std::string&) { return true; };
  EXPECT_GT(cache_under_crashes({.ignores_sync = all}).lost, 0);
}

TEST(TokenizeUnderStutter, ShortCountsAndInterruptionsChangeNoByte) {
  const auto bytes = byte_tokenizer();
  const std::string text = some_text('a');
  SimulatedFiles files;
  write_whole_atomically(files, "text", text);
  tokenize_file(files, "text", "quiet.h5", *bytes);
  const std::string quiet = read_whole(files, "quiet.h5");
  files.trouble({.stutter = true});
  tokenize_file(files, "text", "stuttered.h5", *bytes);
  EXPECT_EQ(decoded(files, "stuttered.h5"), text);
  EXPECT_GT(files.fired(), 20);
  files.trouble({});
  EXPECT_EQ(read_whole(files, "stuttered.h5"), quiet);
}

}  // namespace
}  // namespace trireme
