// Slots come back as they were written, or with a sentence; and their files are nobody else's.
#include "offload/slot_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include "framework/base/error.h"
#include "offload/scratch_folder.h"
#include "offload/tiled_store.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

using testing::sentence_of;
using testing::TemporaryFolder;

std::int64_t rights_of(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : -1;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class Slots : public ::testing::Test {
 protected:
  Tensor buffer(std::int64_t bytes) {
    return allocate_on_host(ledger_, {bytes}, DType::kU8, MemoryKind::kCommunication);
  }
  std::unique_ptr<SlotFile> make(const std::vector<std::int64_t>& payloads) {
    return std::make_unique<SlotFile>(*files_, pool_, path_, payloads, ledger_,
                                      MemoryKind::kOptimizer);
  }
  static std::vector<std::uint8_t> pattern(std::int64_t bytes, int seed) {
    std::vector<std::uint8_t> out(static_cast<std::size_t>(bytes));
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::uint8_t>(i * 7 + i / 251 + static_cast<std::size_t>(seed));
    return out;
  }
  void write(SlotFile& file, std::int64_t slot, const std::vector<std::uint8_t>& payload,
             std::int64_t misaligned = 0) {
    const Tensor memory = buffer(file.buffer_bytes(slot) + misaligned);
    auto* data = static_cast<std::byte*>(memory.data()) + misaligned;
    std::memcpy(data, payload.data(), payload.size());
    file.start_write(slot, data).wait();
  }
  std::vector<std::uint8_t> read(SlotFile& file, std::int64_t slot, std::size_t payload,
                                 std::int64_t misaligned = 0) {
    const Tensor memory = buffer(file.buffer_bytes(slot) + misaligned);
    auto* data = static_cast<std::byte*>(memory.data()) + misaligned;
    file.start_read(slot, data).wait();
    std::vector<std::uint8_t> out(payload);
    std::memcpy(out.data(), data, payload);
    return out;
  }
  // The file's bytes, changed behind the back of the SlotFile.
  std::string image() { return read_whole(*files_, path_); }
  void put_image(const std::string& bytes, std::int64_t offset = 0) {
    files_->open(path_, OpenMode::kReadWrite)
        ->write(bytes.data(), static_cast<std::int64_t>(bytes.size()), offset);
  }

  TemporaryFolder folder_;
  std::unique_ptr<Files> files_ = real_files();
  std::string path_ = folder_ / "slots";
  std::shared_ptr<MemoryLedger> ledger_ = std::make_shared<MemoryLedger>();
  IoPool pool_{2};
};

// DeepSpeed #1070, #1627, #2006, #3376: lost tails and alignment errors.
TEST_F(Slots, OddSizesComeBackByteExact) {
  const std::vector<std::int64_t> sizes = {1'000'003, 1,    4,    511 * 4, 513 * 4,
                                           4032,      4033, 4096, 511};
  const auto file = make(sizes);
  EXPECT_EQ(rights_of(path_), 0600);
  EXPECT_EQ(files_->status(path_).bytes, file->bytes());
  EXPECT_EQ(ledger_->entry(Tier::kDisk, MemoryKind::kOptimizer).current, file->bytes());
  for (const std::int64_t misaligned : {0, 1, 64}) {
    for (std::int64_t slot = 0; slot < file->slots(); ++slot) {
      EXPECT_EQ(file->buffer_bytes(slot) % kDiskBlock, 0);
      write(*file, slot, pattern(sizes[static_cast<std::size_t>(slot)], static_cast<int>(slot)),
            misaligned);
    }
    for (std::int64_t slot = 0; slot < file->slots(); ++slot) {
      const auto expected = pattern(sizes[static_cast<std::size_t>(slot)], static_cast<int>(slot));
      EXPECT_EQ(read(*file, slot, expected.size()), expected);
      EXPECT_EQ(read(*file, slot, expected.size(), 1), expected);
    }
  }
}

// The other tests live in memory; here O_DIRECT is a disk's, with its rules of alignment.
TEST_F(Slots, OddSizesComeBackByteExactFromADisk) {
  const std::string temporary = std::filesystem::temp_directory_path().string();
  const ScratchFolder scratch(
      *files_, {.folder = temporary,
                .name = std::filesystem::path(folder_.path()).filename().string() + "-slots"});
  path_ = path_join(scratch.path(), "slots");
  const std::vector<std::int64_t> sizes = {1'000'003, 4, 511 * 4, 513 * 4};
  const auto file = make(sizes);
  for (const std::int64_t misaligned : {0, 8, 0}) {
    for (std::int64_t slot = 0; slot < file->slots(); ++slot) {
      const auto payload = pattern(sizes[static_cast<std::size_t>(slot)], static_cast<int>(slot));
      write(*file, slot, payload, misaligned);
      EXPECT_EQ(read(*file, slot, payload.size()), payload);
      EXPECT_EQ(read(*file, slot, payload.size(), 8), payload);
    }
  }
}

TEST_F(Slots, NothingIsLeftBehind) {
  { const auto file = make({100}); }
  EXPECT_FALSE(files_->exists(path_));
  EXPECT_EQ(ledger_->current(Tier::kDisk), 0);
  EXPECT_EQ(sentence_of([&] {
              make({100, 0});
            }),
            "create " + path_ + ": slot 1 has 0 bytes; at least 1 is needed");
  EXPECT_FALSE(files_->exists(path_));
  EXPECT_EQ(ledger_->current(Tier::kDisk), 0);
}

TEST_F(Slots, SomebodyElsesFileIsLeftAlone) {
  write_whole_atomically(*files_, path_, "mine");
  EXPECT_EQ(sentence_of([&] { make({100}); }), "create " + path_ + ": File exists");
  EXPECT_EQ(image(), "mine");
  EXPECT_EQ(ledger_->current(Tier::kDisk), 0);
}

TEST_F(Slots, ReadingWhatWasNeverWrittenIsRefused) {
  const auto file = make({100});
  EXPECT_FALSE(file->written(0));
  EXPECT_EQ(sentence_of([&] { read(*file, 0, 100); }),
            "read " + path_ + ": slot 0 was never written");
  EXPECT_EQ(sentence_of([&] { read(*file, 1, 100); }), path_ + " has no slot 1, only 1");
}

TEST_F(Slots, EveryFlippedByteIsFound) {
  const auto file = make({300, 5000});
  write(*file, 0, pattern(300, 1));
  write(*file, 1, pattern(5000, 2));
  const std::string good = image();
  std::vector<std::size_t> places = {0, 299, 300, 4031, 4096, 9000, 9095, 9096, 12287};
  for (std::size_t i = 4032; i < 4096; ++i) places.push_back(i);  // the whole trailer
  for (const std::size_t at : places) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    put_image(bad);
    const std::int64_t slot = at < 4096 ? 0 : 1;
    const std::string said = sentence_of([&] { read(*file, slot, 300); });
    EXPECT_TRUE(contains(said, join("read ", path_, ": slot ", slot, ": "))) << at << ": " << said;
    EXPECT_EQ(sentence_of([&] { read(*file, 1 - slot, 300); }), "");
  }
  put_image(good);
  EXPECT_EQ(read(*file, 0, 300), pattern(300, 1));
}

TEST_F(Slots, DamageIsToldWithBothHashes) {
  const auto file = make({300});
  write(*file, 0, pattern(300, 1));
  put_image("?", 17);
  const std::string said = sentence_of([&] { read(*file, 0, 300); });
  EXPECT_TRUE(contains(said, "slot 0: hash of the bytes is ")) << said;
  EXPECT_TRUE(contains(said, " but the trailer says ")) << said;
}

TEST_F(Slots, SwappedSlotsAreFound) {
  const auto file = make({300, 300});
  write(*file, 0, pattern(300, 1));
  write(*file, 1, pattern(300, 2));
  const std::string good = image();
  put_image(good.substr(4096) + good.substr(0, 4096));
  EXPECT_TRUE(contains(sentence_of([&] { read(*file, 0, 300); }),
                       "slot 0: slot number is 0 but the trailer says 1"));
  EXPECT_TRUE(contains(sentence_of([&] { read(*file, 1, 300); }),
                       "slot 1: slot number is 1 but the trailer says 0"));
}

TEST_F(Slots, AnOldImageIsFound) {
  const auto file = make({300});
  write(*file, 0, pattern(300, 1));
  const std::string old = image();
  write(*file, 0, pattern(300, 2));
  put_image(old);
  EXPECT_TRUE(contains(sentence_of([&] { read(*file, 0, 300); }),
                       "slot 0: generation is 2 but the trailer says 1"));
}

TEST_F(Slots, AnotherFilesSlotIsFound) {
  const auto file = make({300});
  SlotFile other(*files_, pool_, folder_ / "other", {300}, ledger_, MemoryKind::kOptimizer);
  write(*file, 0, pattern(300, 1));
  const std::string foreign = image();
  write(other, 0, pattern(300, 2));
  files_->open(folder_ / "other", OpenMode::kReadWrite)->write(foreign.data(), 4096, 0);
  EXPECT_TRUE(contains(sentence_of([&] { read(other, 0, 300); }), "slot 0: file is "));
}

TEST_F(Slots, AShortenedFileIsFound) {
  const auto file = make({300, 300});
  write(*file, 0, pattern(300, 1));
  write(*file, 1, pattern(300, 1));
  file->expect_present();
  files_->open(path_, OpenMode::kReadWrite)->truncate(5000);
  EXPECT_EQ(sentence_of([&] { read(*file, 1, 300); }),
            "read " + path_ + ": 4096 bytes at offset 4096: the file ends after 904 of them");
  EXPECT_TRUE(contains(sentence_of([&] { file->expect_present(); }), "has 5000 bytes instead of"));
}

TEST(Scratch, IsPrivateAndGoesAway) {
  const TemporaryFolder outer;
  const auto files = real_files();
  const std::string folder = outer / "run/offload";
  {
    const ScratchFolder scratch(*files, {.folder = folder, .make = true, .name = "rank-3"});
    EXPECT_EQ(scratch.path(), folder + "/rank-3");
    EXPECT_EQ(rights_of(scratch.path()), 0700);
    write_whole_atomically(*files, path_join(scratch.path(), "left"), "over");
    scratch.expect_room(1);
    EXPECT_TRUE(contains(sentence_of([&] { scratch.expect_room(std::int64_t{1} << 60); }),
                         "but the disk has only "));
    const ScratchFolder peer(*files, {.folder = folder, .make = true, .name = "rank-4"});
  }
  EXPECT_FALSE(files->exists(folder));
  EXPECT_TRUE(files->exists(outer / "run"));
}

TEST(Scratch, WhatAKilledRunLeftIsRemovedAndNothingElse) {
  const TemporaryFolder outer;
  const auto files = real_files();
  files->make_directories(outer / "rank-0/deep");
  write_whole_atomically(*files, outer / "rank-0/deep/old", "1");
  write_whole_atomically(*files, outer / "mine", "2");
  {
    const ScratchFolder scratch(*files, {.folder = outer.path()});
    EXPECT_TRUE(files->list(scratch.path()).empty());
    EXPECT_EQ(rights_of(scratch.path()), 0700);
  }
  EXPECT_EQ(files->list(outer.path()), std::vector<std::string>{"mine"});
}

TEST(Scratch, BadFoldersAreBadInput) {
  const TemporaryFolder outer;
  const auto files = real_files();
  write_whole_atomically(*files, outer / "file", "1");
  const auto said = [&](const std::string& folder, bool make) {
    try {
      const ScratchFolder scratch(*files, {.folder = folder, .make = make});
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string key = "offload.folder = ";
  EXPECT_EQ(said(outer / "none", false), key + (outer / "none") + " does not exist; make it first");
  EXPECT_EQ(said(outer / "file", false), key + (outer / "file") + " is not a folder");
  EXPECT_EQ(said("", true), "offload.folder is empty; name a folder");
  EXPECT_TRUE(contains(said(outer / "file/x", true), " cannot be made: "))
      << said(outer / "file/x", true);
  // A place where not even root may make a folder.
  EXPECT_TRUE(contains(said("/proc", false),
                       "offload.folder = /proc is not writable: make directory "
                       "/proc/rank-0: "));
}

}  // namespace
}  // namespace trireme
