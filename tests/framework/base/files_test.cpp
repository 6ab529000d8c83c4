#include "framework/base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "framework/base/error.h"
#include "framework/base/program.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

using testing::Fault;
using testing::FaultPlan;
using testing::FaultyFiles;
using testing::sentence_of;
using testing::SimulatedCrash;
using testing::TemporaryFolder;

TEST(Files, RoundTripsThroughEveryMode) {
  const TemporaryFolder folder;
  const auto files = real_files();
  const std::string path = folder / "a.txt";
  {
    const auto file = files->open(path, OpenMode::kCreate);
    file->write("hello world", 11, 0);
    file->write("W", 1, 6);
    file->sync();
    file->close();
    file->close();
  }
  {
    const auto file = files->open(path, OpenMode::kAppend);
    file->append("!\n");
  }
  EXPECT_EQ(read_whole(*files, path), "hello World!\n");
  const auto file = files->open(path, OpenMode::kReadWrite);
  EXPECT_EQ(file->size(), 13);
  file->truncate(5);
  EXPECT_EQ(read_whole(*files, path), "hello");
  file->preallocate(100);
  EXPECT_EQ(file->size(), 100);
  char text[8];
  EXPECT_EQ(file->read_some(text, 8, 96), 4);
}

TEST(Files, MapsAnyOffsetAndOutlivesItsFile) {
  const TemporaryFolder folder;
  const auto files = real_files();
  std::string text(10000, 'x');
  text.replace(5000, 4, "mark");
  write_whole_atomically(*files, folder / "a", text);
  auto file = files->open(folder / "a", OpenMode::kRead);
  const auto mapping = file->map(5000, 5000);
  EXPECT_EQ(file->map(10000, 0)->bytes(), 0);
  EXPECT_NE(sentence_of([&] { file->map(5000, 5001); }).find("the file has only 10000"),
            std::string::npos);
  file.reset();
  EXPECT_EQ(mapping->text().substr(0, 5), "markx");
}

TEST(Files, FoldersAndNames) {
  const TemporaryFolder folder;
  const auto files = real_files();
  files->make_directories(folder / "x/y/z");
  files->make_directories(folder / "x/y/z");
  write_whole_atomically(*files, folder / "x/b", "1");
  write_whole_atomically(*files, folder / "x/a", "22");
  EXPECT_EQ(files->list(folder / "x"), (std::vector<std::string>{"a", "b", "y"}));
  EXPECT_EQ(files->status(folder / "x/a").bytes, 2);
  EXPECT_EQ(files->status(folder / "x").kind, FileKind::kDirectory);
  EXPECT_FALSE(files->exists(folder / "x/a/below-a-file"));
  EXPECT_GT(files->free_space(folder.path()), 0);
  EXPECT_NE(sentence_of([&] { files->make_directories(folder / "x/a"); }).find("something else"),
            std::string::npos);
  files->remove_all(folder / "x");
  files->remove_all(folder / "x");
  EXPECT_FALSE(files->exists(folder / "x"));
  EXPECT_EQ(folder_of("a/b"), "a");
  EXPECT_EQ(folder_of("b"), ".");
  EXPECT_EQ(folder_of("/b"), "/");
  EXPECT_EQ(folder_of("a//b/"), "a");
  EXPECT_EQ(folder_of("/"), "/");
  EXPECT_EQ(path_join("a", "b"), "a/b");
  EXPECT_EQ(path_join("a/", "b"), "a/b");
  EXPECT_EQ(path_join("", "b"), "b");
}

TEST(Files, RemovingAFolderNeverFollowsLinks) {
  const TemporaryFolder folder;
  const auto files = real_files();
  files->make_directories(folder / "kept");
  files->make_directories(folder / "gone");
  write_whole_atomically(*files, folder / "kept/a", "1");
  std::filesystem::create_symlink(folder / "kept", folder / "gone/link");
  files->remove_all(folder / "gone");
  EXPECT_TRUE(files->exists(folder / "kept/a"));
}

TEST(Files, FailuresAreSentences) {
  const TemporaryFolder folder;
  const auto files = real_files();
  write_whole_atomically(*files, folder / "a", "12345");
  EXPECT_EQ(sentence_of([&] { files->open(folder / "none", OpenMode::kRead); }),
            "open " + (folder / "none") + ": No such file or directory");
  EXPECT_EQ(sentence_of([&] { files->open(folder.path(), OpenMode::kRead); }),
            "open " + folder.path() + ": Is a directory");
  EXPECT_EQ(sentence_of([&] { files->open(folder / "a", OpenMode::kCreate); }),
            "create " + (folder / "a") + ": File exists");
  char text[8];
  EXPECT_EQ(sentence_of([&] { files->open(folder / "a", OpenMode::kRead)->read(text, 8, 2); }),
            "read " + (folder / "a") + ": 8 bytes at offset 2: the file ends after 3 of them");
  EXPECT_EQ(sentence_of([&] { read_whole(*files, folder / "a", 4); }),
            "read " + (folder / "a") + ": 5 bytes, the limit is 4");
  EXPECT_EQ(sentence_of([&] { files->open("/dev/full", OpenMode::kReadWrite)->write("ab", 2, 0); }),
            "write /dev/full: 2 bytes at offset 0: No space left on device (0 of 2 bytes written)");
}

// Aligned blocks may pass by the page cache and the rest may not: both see the same bytes.
TEST(Files, ScratchFilesTakeAnyTransfer) {
  const auto files = real_files();
  const TemporaryFolder memory;
  const std::string temporary = std::filesystem::temp_directory_path().string();
  for (const std::string& path :
       {memory / "scratch", files->temporary_name(path_join(temporary, "trireme-scratch"))}) {
    const auto file = files->open(path, OpenMode::kScratch);
    struct stat info = {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    EXPECT_EQ(sentence_of([&] { files->open(path, OpenMode::kScratch); }),
              "create " + path + ": File exists");
    file->preallocate(12288);
    alignas(4096) std::array<char, 8192> data{};
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7 + i / 256);
    alignas(4096) std::array<char, 8192> back{};
    const auto same = [&](std::int64_t at, std::int64_t source, std::int64_t bytes) {
      return std::equal(back.begin() + at, back.begin() + at + bytes, data.begin() + source);
    };
    file->write(data.data(), 8192, 0);      // direct
    file->write(data.data() + 1, 100, 50);  // unaligned memory and place
    file->write(data.data(), 4096, 4096);   // direct, over the cached page's neighbour
    file->read(back.data(), 8192, 0);       // direct
    EXPECT_TRUE(same(0, 0, 50));
    EXPECT_TRUE(same(50, 1, 100));
    EXPECT_TRUE(same(150, 150, 4096 - 150));
    EXPECT_TRUE(same(4096, 0, 4096));
    file->read(back.data() + 3, 111, 4090);  // buffered
    EXPECT_TRUE(same(9, 0, 105));
    EXPECT_EQ(sentence_of([&] { file->read(back.data(), 8192, 8192); }),
              "read " + path + ": 8192 bytes at offset 8192: the file ends after 4096 of them");
    files->remove(path);
  }
}

TEST(Files, PrivateDirectoriesAreTheOwnersAndNew) {
  const TemporaryFolder folder;
  const auto files = real_files();
  files->make_private_directory(folder / "own");
  struct stat info = {};
  EXPECT_EQ(::stat((folder / "own").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_EQ(sentence_of([&] { files->make_private_directory(folder / "own"); }),
            "make directory " + (folder / "own") + ": File exists");
}

TEST(Files, OpeningAPipeDoesNotWait) {
  const TemporaryFolder folder;
  const auto files = real_files();
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  char text[4];
  EXPECT_NE(sentence_of([&] { files->open(folder / "pipe", OpenMode::kRead)->read(text, 4, 0); }),
            "");
}

std::string big_text(char fill) {
  std::string text(3000, fill);
  for (std::size_t i = 0; i < text.size(); i += 7) text[i] = static_cast<char>('0' + i % 10);
  return text;
}

// Replaces a file under every fault at every call: the visible file is the old or the new one.
void replace_under(Fault fault, bool sticky) {
  const std::string before = big_text('a');
  const std::string after = big_text('b') + "longer";
  const auto plain = real_files();
  std::int64_t fired = 0;
  for (std::int64_t k = 1;; ++k) {
    SCOPED_TRACE("call " + std::to_string(k));
    ASSERT_LT(k, 100);
    const TemporaryFolder folder;
    write_whole_atomically(*plain, folder / "f", before);
    FaultyFiles faulty({.fault = fault, .at = k, .sticky = sticky});
    bool crashed = false;
    std::string failure;
    try {
      failure = sentence_of([&] { write_whole_atomically(faulty, folder / "f", after); });
    } catch (const SimulatedCrash&) {
      crashed = true;
      faulty.lose_unsynced();
    }
    const std::string now = read_whole(*plain, folder / "f");
    EXPECT_TRUE(now == before || now == after);
    if (failure.empty() && !crashed) {
      EXPECT_EQ(now, after);
    }
    fired += faulty.fired();
    if (k > faulty.calls()) break;
    const bool must_pass = !sticky && (fault == Fault::kInterrupted || fault == Fault::kOneByte ||
                                       fault == Fault::kHalf);
    if (must_pass) {
      EXPECT_EQ(failure, "");
    }
  }
  EXPECT_GT(fired, 0);
}

TEST(AtomicFile, IsOldOrNewUnderEveryFaultAtEveryCall) {
  for (const Fault fault : {Fault::kIoError, Fault::kDiskFull, Fault::kInterrupted, Fault::kOneByte,
                            Fault::kHalf, Fault::kCrash})
    for (const bool sticky : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "fault " << static_cast<int>(fault) << " " << sticky);
      replace_under(fault, sticky);
    }
}

TEST(AtomicFile, LeavesNothingBehindAfterAnError) {
  const TemporaryFolder folder;
  for (std::int64_t k = 2; k <= 5; ++k) {  // after the open: write, sync, close, rename
    FaultyFiles faulty({.fault = Fault::kDiskFull, .at = k});
    EXPECT_NE(sentence_of([&] { write_whole_atomically(faulty, folder / "f", "text"); }), "");
    EXPECT_EQ(faulty.fired(), 1);
    EXPECT_TRUE(real_files()->list(folder.path()).empty());
  }
}

// The oracle can fail: a writer that renames before it syncs is caught by the crash model.
TEST(AtomicFile, TheCrashModelFindsARenameBeforeSync) {
  const TemporaryFolder folder;
  const auto plain = real_files();
  write_whole_atomically(*plain, folder / "f", "before");
  FaultyFiles faulty({.fault = Fault::kCrash, .at = 5});  // open, write, close, rename | sync
  EXPECT_THROW(
      {
        const auto file = faulty.open(folder / "f.tmp", OpenMode::kCreate);
        file->write("after", 5, 0);
        file->close();
        faulty.rename(folder / "f.tmp", folder / "f");
        faulty.sync_directory(folder.path());
      },
      SimulatedCrash);
  faulty.lose_unsynced();
  const std::string now = read_whole(*plain, folder / "f");
  EXPECT_NE(now, "before");
  EXPECT_NE(now, "after");
}

TEST(Files, AnEndlessInterruptionIsAnError) {
  const TemporaryFolder folder;
  FaultyFiles faulty({.fault = Fault::kInterrupted, .at = 2, .sticky = true});
  const auto file = faulty.open(folder / "f", OpenMode::kCreate);
  EXPECT_NE(sentence_of([&] { file->write("ab", 2, 0); }).find("Interrupted"), std::string::npos);
}

TEST(Files, AppendSaysHowMuchWasWritten) {
  const TemporaryFolder folder;
  FaultyFiles faulty({.fault = Fault::kDiskFull, .at = 2});
  const auto file = faulty.open(folder / "f", OpenMode::kAppend);
  EXPECT_EQ(
      sentence_of([&] { file->append("1234"); }),
      "append to " + (folder / "f") + ": 4 bytes: No space left on device (0 of 4 bytes written)");
}

TEST(Program, OutputStatusAndAbsence) {
  const ProgramResult echo = run_program({"echo", "a b"});
  EXPECT_TRUE(echo.found);
  EXPECT_EQ(echo.status, 0);
  EXPECT_EQ(echo.output, "a b\n");
  EXPECT_EQ(run_program({"sh", "-c", "exit 3"}).status, 3);
  EXPECT_EQ(run_program({"sh", "-c", "kill -9 $$"}).status, 137);
  EXPECT_EQ(run_program({"cat"}).output, "");
  EXPECT_FALSE(run_program({"no-such-program-of-trireme"}).found);
}

}  // namespace
}  // namespace trireme
