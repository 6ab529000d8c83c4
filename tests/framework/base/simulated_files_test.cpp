// The simulated disk against tiny sequences made by hand: what each choice of a power cut keeps.
#include "tests/support/simulated_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "framework/base/error.h"

namespace trireme {
namespace {

using testing::every_persistence;
using testing::Fault;
using testing::KeptData;
using testing::KeptNames;
using testing::kSector;
using testing::Persistence;
using testing::sentence_of;
using testing::SimulatedCrash;
using testing::SimulatedFiles;

constexpr Persistence kNothing{KeptData::kNone, KeptNames::kNone};
constexpr Persistence kEverything{KeptData::kAll, KeptNames::kAll};
constexpr int kSeeds = 200;

std::string text_of_sectors(std::initializer_list<char> fill) {
  std::string text;
  for (const char c : fill) text.append(kSector, c);
  return text;
}

void put(Files& files, const std::string& path, const std::string& text, std::int64_t offset = 0) {
  const auto file = files.open(path, OpenMode::kReadWrite);
  file->write(text.data(), static_cast<std::int64_t>(text.size()), offset);
}

// The file's content, or "(none)".
std::string content(Files& files, const std::string& path) {
  return files.exists(path) ? read_whole(files, path) : "(none)";
}

std::string after(const SimulatedFiles& files, const Persistence& kept, const std::string& path,
                  std::uint64_t seed = 1) {
  return content(*files.restart(kept, seed), path);
}

// All contents that the choice leaves over many seeds.
std::set<std::string> outcomes(const SimulatedFiles& files, const Persistence& kept,
                               const std::string& path) {
  std::set<std::string> seen;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) seen.insert(after(files, kept, path, seed));
  return seen;
}

TEST(SimulatedFiles, BehaveLikeFiles) {
  SimulatedFiles files;
  {
    const auto file = files.open("a", OpenMode::kCreate);
    file->write("hello world", 11, 0);
    file->write("W", 1, 6);
    file->sync();
    file->close();
    file->close();
  }
  files.open("a", OpenMode::kAppend)->append("!\n");
  EXPECT_EQ(read_whole(files, "/a"), "hello World!\n");
  {
    const auto file = files.open("./a", OpenMode::kReadWrite);
    file->truncate(5);
    EXPECT_EQ(read_whole(files, "a"), "hello");
    file->preallocate(100);
    EXPECT_EQ(file->size(), 100);
    char text[8];
    EXPECT_EQ(file->read_some(text, 8, 96), 4);
    const auto mapping = file->map(3, 2);
    file->write("XY", 2, 3);
    EXPECT_EQ(mapping->text(), "lo");
    EXPECT_EQ(files.open_now(), 1);
  }
  EXPECT_EQ(files.open_now(), 0);
  EXPECT_EQ(files.used(), 100);
  files.make_directories("x/y/z");
  files.make_directories("x/y/z");
  write_whole_atomically(files, "x/b", "1");
  write_whole_atomically(files, "x/a", "22");
  EXPECT_EQ(files.list("x"), (std::vector<std::string>{"a", "b", "y"}));
  EXPECT_EQ(files.status("x/a").bytes, 2);
  EXPECT_GT(files.status("x/a").modified_nanoseconds, files.status("x/b").modified_nanoseconds);
  EXPECT_EQ(files.status("x").kind, FileKind::kDirectory);
  EXPECT_FALSE(files.exists("x/a/below-a-file"));
  files.rename("x/y", "moved");
  EXPECT_EQ(files.list("moved"), std::vector<std::string>{"z"});
  files.remove_all("x");
  EXPECT_FALSE(files.exists("x"));
  files.make_private_directory("own");
  const auto scratch = files.open("own/s", OpenMode::kScratch);
  EXPECT_TRUE(scratch->direct());
  EXPECT_TRUE(files.owner_only("own") && files.owner_only("own/s"));
  EXPECT_FALSE(files.owner_only("a"));
  EXPECT_EQ(files.free_space("own"), (std::int64_t{1} << 40) - 100);
}

TEST(SimulatedFiles, RefuseWhatAnOperatingSystemRefuses) {
  SimulatedFiles files;
  put(files, "a", "12345");
  files.make_directories("x/y");
  const auto refusal = [](const auto& call) {
    const std::string sentence = sentence_of(call);
    return sentence.substr(sentence.rfind(": ") + 2);
  };
  EXPECT_EQ(sentence_of([&] { files.open("none", OpenMode::kRead); }),
            "open none: No such file or directory");
  EXPECT_EQ(refusal([&] { files.open("none/b", OpenMode::kCreate); }), "No such file or directory");
  EXPECT_EQ(refusal([&] { files.open("a/b", OpenMode::kCreate); }), "Not a directory");
  EXPECT_EQ(refusal([&] { files.open("x", OpenMode::kRead); }), "Is a directory");
  EXPECT_EQ(refusal([&] { files.open("a", OpenMode::kCreate); }), "File exists");
  EXPECT_EQ(refusal([&] { files.open("a", OpenMode::kScratch); }), "File exists");
  EXPECT_EQ(refusal([&] { files.remove("x"); }), "Directory not empty");
  EXPECT_EQ(refusal([&] { files.remove("none"); }), "No such file or directory");
  EXPECT_EQ(refusal([&] { files.rename("none", "b"); }), "No such file or directory");
  EXPECT_EQ(refusal([&] { files.rename("a", "x"); }), "Is a directory");
  EXPECT_EQ(refusal([&] { files.rename("x", "a"); }), "Not a directory");
  EXPECT_EQ(refusal([&] { files.rename("x", "x/y/z"); }), "Invalid argument");
  EXPECT_EQ(refusal([&] { files.make_private_directory("x"); }), "File exists");
  EXPECT_EQ(refusal([&] { files.list("a"); }), "Not a directory");
  EXPECT_NE(sentence_of([&] { files.open("a", OpenMode::kRead)->write("x", 1, 0); }), "");
}

TEST(PowerCut, AWriteWithoutSyncCanBeLostAndSyncKeepsIt) {
  SimulatedFiles files;
  put(files, "a", "old");
  files.sync_all();
  put(files, "a", "new and longer");
  EXPECT_EQ(after(files, kNothing, "a"), "old");
  EXPECT_EQ(after(files, kEverything, "a"), "new and longer");
  files.open("a", OpenMode::kReadWrite)->sync();
  for (const Persistence& kept : every_persistence())
    EXPECT_EQ(outcomes(files, kept, "a"), std::set<std::string>{"new and longer"}) << text_of(kept);
}

TEST(PowerCut, ANameWithoutSyncOfItsFolderCanBeLost) {
  SimulatedFiles files;
  {
    const auto file = files.open("a.tmp", OpenMode::kCreate);
    file->write("new", 3, 0);
    file->sync();
  }
  EXPECT_EQ(after(files, kNothing, "a.tmp"), "(none)");
  files.rename("a.tmp", "a");
  const Persistence names{KeptData::kNone, KeptNames::kRandom};
  EXPECT_EQ(outcomes(files, names, "a"), (std::set<std::string>{"(none)", "new"}));
  EXPECT_EQ(outcomes(files, names, "a.tmp"), (std::set<std::string>{"(none)", "new"}));
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {  // a rename is atomic
    const auto restarted = files.restart(names, seed);
    EXPECT_LE(restarted->list("/").size(), 1u);
  }
  files.sync_directory("/");
  for (const Persistence& kept : every_persistence()) {
    EXPECT_EQ(outcomes(files, kept, "a"), std::set<std::string>{"new"}) << text_of(kept);
    EXPECT_EQ(outcomes(files, kept, "a.tmp"), std::set<std::string>{"(none)"}) << text_of(kept);
  }
}

TEST(PowerCut, ARenameMayBeAheadOfItsDataOrBehind) {
  SimulatedFiles files;
  put(files, "a", "old");
  files.sync_all();
  put(files, "a.tmp", "new");
  files.rename("a.tmp", "a");
  EXPECT_EQ(after(files, {KeptData::kNone, KeptNames::kAll}, "a"), "");
  EXPECT_EQ(after(files, {KeptData::kZeros, KeptNames::kAll}, "a"), std::string(3, '\0'));
  EXPECT_EQ(after(files, {KeptData::kAll, KeptNames::kNone}, "a"), "old");
}

TEST(PowerCut, NamesAreIndependentAndFoldersHoldTheirs) {
  SimulatedFiles files;
  put(files, "a", "");
  put(files, "b", "");
  std::set<std::vector<std::string>> seen;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed)
    seen.insert(files.restart({KeptData::kAll, KeptNames::kRandom}, seed)->list("/"));
  EXPECT_EQ(seen, (std::set<std::vector<std::string>>{{}, {"a"}, {"b"}, {"a", "b"}}));
  seen.clear();
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed)
    seen.insert(files.restart({KeptData::kAll, KeptNames::kInOrder}, seed)->list("/"));
  EXPECT_EQ(seen, (std::set<std::vector<std::string>>{{}, {"a"}, {"a", "b"}}));

  files.make_directories("folder");
  put(files, "folder/c", "text");
  files.open("folder/c", OpenMode::kReadWrite)->sync();
  files.sync_directory("folder");
  EXPECT_EQ(after(files, kNothing, "folder/c"), "(none)");  // its folder has no name yet
  files.sync_directory("/");
  EXPECT_EQ(after(files, kNothing, "folder/c"), "text");
  files.remove_all("folder");
  EXPECT_EQ(after(files, kNothing, "folder/c"), "text");
  EXPECT_EQ(after(files, kEverything, "folder/c"), "(none)");
}

// A rename between folders is one change: syncing either folder makes both ends durable.
TEST(PowerCut, ARenameAcrossFoldersIsInOneOfThem) {
  for (const std::string synced : {"", "x", "y"}) {
    SimulatedFiles files;
    files.make_directories("x");
    files.make_directories("y");
    put(files, "x/a", "text");
    files.sync_all();
    files.rename("x/a", "y/a");
    if (!synced.empty()) files.sync_directory(synced);
    for (const Persistence& kept : every_persistence())
      for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const auto restarted = files.restart(kept, seed);
        EXPECT_NE(restarted->exists("x/a"), restarted->exists("y/a"));
        EXPECT_TRUE(synced.empty() || restarted->exists("y/a"));
      }
  }
}

TEST(PowerCut, DataInOrderIsAPrefixOfTheWrites) {
  SimulatedFiles files;
  put(files, "a", "");
  files.sync_all();
  for (const char* text : {"1", "2", "3"}) files.open("a", OpenMode::kAppend)->append(text);
  EXPECT_EQ(outcomes(files, {KeptData::kInOrder, KeptNames::kAll}, "a"),
            (std::set<std::string>{"", "1", "12", "123"}));
}

TEST(PowerCut, SectorsArriveInAnyOrder) {
  SimulatedFiles files;
  put(files, "a", text_of_sectors({'a', 'b'}));
  files.sync_all();
  put(files, "a", text_of_sectors({'A', 'B'}));
  const Persistence kept{KeptData::kSectors, KeptNames::kAll};
  EXPECT_EQ(outcomes(files, kept, "a"),
            (std::set<std::string>{text_of_sectors({'a', 'b'}), text_of_sectors({'A', 'b'}),
                                   text_of_sectors({'a', 'B'}), text_of_sectors({'A', 'B'})}));
  put(files, "b", text_of_sectors({'C', 'D'}));
  const auto grown = outcomes(files, kept, "b");
  EXPECT_TRUE(grown.contains(""));
  EXPECT_TRUE(grown.contains(text_of_sectors({'C'})));
  EXPECT_TRUE(grown.contains(text_of_sectors({'\0', 'D'})));
  EXPECT_TRUE(grown.contains(text_of_sectors({'C', '\0'})));
  EXPECT_TRUE(grown.contains(text_of_sectors({'\0', '\0'})));
}

TEST(PowerCut, TheLastSectorMayBeTorn) {
  SimulatedFiles files;
  put(files, "a", text_of_sectors({'a', 'b'}));
  files.sync_all();
  put(files, "a", text_of_sectors({'A', 'B'}));
  for (const std::string& torn : outcomes(files, {KeptData::kTorn, KeptNames::kAll}, "a")) {
    EXPECT_EQ(torn.substr(0, kSector), text_of_sectors({'A'}));
    const auto last = torn.substr(kSector);
    EXPECT_EQ(last.size(), static_cast<std::size_t>(kSector));
    const auto upper = static_cast<std::size_t>(std::count(last.begin(), last.end(), 'B'));
    EXPECT_LT(upper, last.size());
    EXPECT_EQ(last, std::string(upper, 'B') + std::string(last.size() - upper, 'b'));
  }
  put(files, "b", "xyz");
  EXPECT_EQ(outcomes(files, {KeptData::kTorn, KeptNames::kAll}, "b"),
            (std::set<std::string>{"", "x", "xy"}));
}

TEST(PowerCut, TheSizeMayGrowBeforeTheData) {
  SimulatedFiles files;
  put(files, "a", "old");
  files.sync_all();
  files.open("a", OpenMode::kAppend)->append("new");
  EXPECT_EQ(after(files, {KeptData::kZeros, KeptNames::kNone}, "a"),
            std::string("old") + std::string(3, '\0'));
}

TEST(PowerCut, AfterAFailedSyncTheNextOneClaimsSuccessAndTheDataIsLost) {
  SimulatedFiles files;
  put(files, "a", "old");
  files.sync_all();
  files.trouble({.plan = {.fault = Fault::kIoError, .at = 3}});  // open, write, sync
  const auto file = files.open("a", OpenMode::kReadWrite);
  file->write("new", 3, 0);
  EXPECT_EQ(sentence_of([&] { file->sync(); }), "sync a: Input/output error");
  EXPECT_EQ(files.fired(), 1);
  EXPECT_EQ(sentence_of([&] { file->sync(); }), "");
  EXPECT_EQ(read_whole(files, "a"), "new");  // the cache still has it
  for (const Persistence& kept : every_persistence()) EXPECT_EQ(after(files, kept, "a"), "old");
  file->write("newer", 5, 0);  // written again, it can be saved
  file->sync();
  EXPECT_EQ(after(files, kNothing, "a"), "newer");
}

TEST(SimulatedFiles, TheKthCallAndAllLaterOnesCrash) {
  SimulatedFiles files;
  files.trouble({.plan = {.fault = Fault::kCrash, .at = 2}});
  const auto file = files.open("a", OpenMode::kCreate);
  EXPECT_THROW(file->write("x", 1, 0), SimulatedCrash);
  EXPECT_THROW(file->sync(), SimulatedCrash);
  EXPECT_THROW(files.exists("a"), SimulatedCrash);
  EXPECT_TRUE(files.crashed());
  EXPECT_EQ(files.trace(), (std::vector<std::string>{"create a", "write a"}));
  const auto restarted = files.restart(kEverything, 1);
  EXPECT_EQ(read_whole(*restarted, "a"), "");
  EXPECT_NE(restarted->temporary_name("a"), files.temporary_name("a"));
}

TEST(SimulatedFiles, AFullDiskTakesWhatFitsAndNoMore) {
  SimulatedFiles files;
  files.trouble({.capacity = 10});
  const auto file = files.open("a", OpenMode::kCreate);
  EXPECT_EQ(sentence_of([&] { file->write("0123456789ab", 12, 0); }),
            "write a: 12 bytes at offset 0: No space left on device (10 of 12 bytes written)");
  file->write("abcdefghij", 10, 0);  // what is there may be overwritten
  EXPECT_EQ(files.free_space("/"), 0);
  file->truncate(4);
  file->truncate(100);  // a hole takes no room
  EXPECT_EQ(files.free_space("/"), 6);
  EXPECT_NE(sentence_of([&] { file->preallocate(11); }).find("No space left"), std::string::npos);
  file->preallocate(10);
  files.remove("a");
  EXPECT_EQ(files.free_space("/"), 10);
}

TEST(SimulatedFiles, LimitsBrokenFilesAndStutter) {
  SimulatedFiles files;
  files.trouble({.open_files = 1});
  {
    const auto file = files.open("a", OpenMode::kCreate);
    EXPECT_EQ(sentence_of([&] { files.open("b", OpenMode::kCreate); }),
              "create b: Too many open files");
    EXPECT_FALSE(files.exists("b"));
  }
  EXPECT_EQ(sentence_of([&] { put(files, "b", "fine"); }), "");
  files.trouble({.broken = [](const std::string& path) { return path == "b"; }});
  EXPECT_EQ(sentence_of([&] { read_whole(files, "b"); }), "open b: Input/output error");
  EXPECT_EQ(sentence_of([&] { put(files, "a", "fine"); }), "");
  files.trouble({.stutter = true});
  const std::string text(1000, 'x');
  write_whole_atomically(files, "c", text);
  EXPECT_EQ(read_whole(files, "c"), text);
  EXPECT_GT(files.fired(), 8);
}

TEST(SimulatedFiles, RanksMayWriteSideBySide) {
  SimulatedFiles files;
  const auto shared = files.open("shared", OpenMode::kCreate);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank)
    ranks.emplace_back([&, rank] {
      const std::string own(100, static_cast<char>('0' + rank));
      for (int i = 0; i < 20; ++i) shared->write(own.data(), 100, (4 * i + rank) * 100);
      write_whole_atomically(files, "own-" + std::to_string(rank), own);
    });
  for (auto& rank : ranks) rank.join();
  const std::string text = read_whole(files, "shared");
  ASSERT_EQ(text.size(), 8000u);
  for (std::size_t i = 0; i < text.size(); ++i)
    ASSERT_EQ(text[i], static_cast<char>('0' + i / 100 % 4));
  EXPECT_EQ(files.list("/").size(), 5u);
}

}  // namespace
}  // namespace trireme
