// The atomic writers of framework/base on a simulated disk: every crash point, every choice of what
// a power cut keeps; every error at every call.
#include <gtest/gtest.h>

#include <iostream>

#include "framework/base/error.h"
#include "tests/support/simulated_files.h"

namespace trireme {
namespace {

using testing::every_persistence;
using testing::Fault;
using testing::kSector;
using testing::Persistence;
using testing::sentence_of;
using testing::SimulatedCrash;
using testing::SimulatedFiles;

std::string text_of_sectors(std::initializer_list<char> fill) {
  std::string text;
  for (const char c : fill) text.append(kSector, c);
  return text;
}

void put(Files& files, const std::string& path, const std::string& text) {
  const auto file = files.open(path, OpenMode::kReadWrite);
  file->write(text.data(), static_cast<std::int64_t>(text.size()), 0);
}

// The file's content after a power cut, or "(none)".
std::string after(const SimulatedFiles& files, const Persistence& kept, const std::string& path,
                  std::uint64_t seed) {
  const auto restarted = files.restart(kept, seed);
  return restarted->exists(path) ? read_whole(*restarted, path) : "(none)";
}

// How a test replaces the content of "run/a".
using Replace = std::function<void(Files&, const std::string&)>;

struct Tried {
  std::int64_t crashes = 0;
  std::int64_t restarts = 0;
  std::int64_t lost = 0;  // restarts that found neither allowed content
};

// Crashes at every call, keeps what each choice keeps: old or new, and new once it returned.
Tried replace_under_crashes(const Replace& replace, const testing::Troubles& troubles = {}) {
  const std::string before = text_of_sectors({'a', 'b', 'c'}) + "old";
  const std::string after_it = text_of_sectors({'A', 'B', 'C', 'D'}) + "new";
  Tried tried;
  bool returned = false;
  for (std::int64_t k = 1; !returned; ++k) {
    SimulatedFiles files;
    files.make_directories("run");
    put(files, "run/a", before);
    files.sync_all();
    testing::Troubles with = troubles;
    with.plan = {.fault = Fault::kCrash, .at = k};
    files.trouble(with);
    try {
      replace(files, after_it);
      returned = true;
    } catch (const SimulatedCrash&) {
      ++tried.crashes;
    }
    for (const Persistence& kept : every_persistence())
      for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        const std::string now = after(files, kept, "run/a", seed);
        ++tried.restarts;
        if (now != after_it && (returned || now != before)) ++tried.lost;
      }
  }
  return tried;
}

void replace_atomically(Files& files, const std::string& text) {
  write_whole_atomically(files, "run/a", text);
}

void replace_in_pieces(Files& files, const std::string& text) {
  AtomicFile atomic(files, "run/a");
  for (std::size_t at = 0; at < text.size(); at += 700) {
    const std::string piece = text.substr(at, 700);
    atomic.file().write(piece.data(), static_cast<std::int64_t>(piece.size()),
                        static_cast<std::int64_t>(at));
  }
  atomic.commit();
}

TEST(AtomicWrites, AreOldOrNewAfterAnyPowerCutAndNewOnceTheyReturned) {
  for (const Replace& replace : {Replace(replace_atomically), Replace(replace_in_pieces)}) {
    const Tried tried = replace_under_crashes(replace);
    EXPECT_EQ(tried.lost, 0);
    EXPECT_GE(tried.crashes, 6);  // create, write, sync, close, rename, sync of the folder
    std::cout << "faults: atomic write: " << tried.crashes << " crash points, " << tried.restarts
              << " restarts, " << tried.lost << " lost\n";
  }
}

// The oracle can fail: without either sync, or in the wrong order, data is lost.
TEST(AtomicWrites, PlantedBugsAreFound) {
  const auto of_file = [](const std::string& path) { return path.starts_with("run/a"); };
  const auto of_folder = [](const std::string& path) { return path == "run"; };
  EXPECT_GT(replace_under_crashes(replace_atomically, {.ignores_sync = of_file}).lost, 0);
  EXPECT_GT(replace_under_crashes(replace_atomically, {.ignores_sync = of_folder}).lost, 0);
  const Replace rename_first = [](Files& files, const std::string& text) {
    const auto file = files.open("run/a.tmp", OpenMode::kCreate);
    file->write(text.data(), static_cast<std::int64_t>(text.size()), 0);
    files.rename("run/a.tmp", "run/a");
    file->sync();
    files.sync_directory("run");
  };
  EXPECT_GT(replace_under_crashes(rename_first).lost, 0);
  const Replace in_place = [](Files& files, const std::string& text) {
    put(files, "run/a", text);
    files.open("run/a", OpenMode::kReadWrite)->sync();
  };
  EXPECT_GT(replace_under_crashes(in_place).lost, 0);
}

// An error instead of a crash, at every call: a sentence and the old content, or the new one.
TEST(AtomicWrites, AnErrorAtAnyCallThenAPowerCutNeverMixesOldAndNew) {
  const std::string before = text_of_sectors({'a', 'b'});
  const std::string after_it = text_of_sectors({'A', 'B', 'C'});
  std::int64_t fired = 0;
  for (const Fault fault :
       {Fault::kIoError, Fault::kDiskFull, Fault::kInterrupted, Fault::kOneByte, Fault::kHalf})
    for (const bool sticky : {false, true})
      for (std::int64_t k = 1; k <= 8; ++k) {
        SimulatedFiles files;
        files.make_directories("run");
        put(files, "run/a", before);
        files.sync_all();
        files.trouble({.plan = {.fault = fault, .at = k, .sticky = sticky}});
        const std::string failure = sentence_of([&] { replace_atomically(files, after_it); });
        fired += files.fired();
        files.trouble({});
        for (const Persistence& kept : every_persistence()) {
          const std::string now = after(files, kept, "run/a", static_cast<std::uint64_t>(k));
          EXPECT_TRUE(now == after_it || (!failure.empty() && now == before))
              << text_of(kept) << " call " << k << ": " << failure;
        }
      }
  EXPECT_GT(fired, 40);
}

}  // namespace
}  // namespace trireme
