// Threads and the way past the page cache change no byte, and lose no error; and what a glance at a
// checkpoint leaves to its readers, they find.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "framework/base/error.h"
#include "tests/framework/checkpoint/random_state.h"
#include "tests/support/faulty_files.h"
#include "tests/support/passed_files.h"

namespace trireme {
namespace {

using testing::sentence_of;
using testing::TemporaryFolder;

// Says that it goes past the page cache, and checks what that would need.
class PickyFile final : public File {
 public:
  PickyFile(std::unique_ptr<File> inner, std::atomic<int>& pages)
      : File(inner->path()), inner_(std::move(inner)), pages_(pages) {}
  bool direct() const override { return true; }
  Outcome raw_read(void* into, std::int64_t bytes, std::int64_t offset) override {
    return inner_->raw_read(into, bytes, offset);
  }
  Outcome raw_write(const void* from, std::int64_t bytes, std::int64_t offset) override {
    if (reinterpret_cast<std::uintptr_t>(from) % 4096 == 0 && bytes % 4096 == 0 &&
        offset % 4096 == 0)
      ++pages_;
    return inner_->raw_write(from, bytes, offset);
  }
  Outcome raw_append(const void* from, std::int64_t bytes) override {
    return inner_->raw_append(from, bytes);
  }
  Outcome raw_size() override { return inner_->raw_size(); }
  Outcome raw_truncate(std::int64_t bytes) override { return inner_->raw_truncate(bytes); }
  Outcome raw_sync() override { return inner_->raw_sync(); }
  Outcome raw_preallocate(std::int64_t bytes) override { return inner_->raw_preallocate(bytes); }
  Outcome raw_map(std::int64_t offset, std::int64_t bytes,
                  std::unique_ptr<Mapping>& into) override {
    return inner_->raw_map(offset, bytes, into);
  }
  Outcome raw_close() override { return inner_->raw_close(); }

 private:
  std::unique_ptr<File> inner_;
  std::atomic<int>& pages_;
};

class PickyFiles final : public testing::PassedFiles {
 public:
  explicit PickyFiles(std::shared_ptr<Files> inner) : PassedFiles(std::move(inner)) {}
  Outcome raw_open(const std::string& path, OpenMode mode, std::unique_ptr<File>& into) override {
    const Outcome outcome = inner().raw_open(path, mode, into);
    if (outcome.error == 0 && mode == OpenMode::kCreateDirect)
      into = std::make_unique<PickyFile>(std::move(into), pages);
    return outcome;
  }
  std::atomic<int> pages = 0;  // writes that could go past the cache
};

constexpr std::int64_t kBlockElements = kHashBlock / 4;
constexpr std::int64_t kRows = 7, kColumns = kBlockElements + 600;

LogicalArray array_of(const char* tensor) {
  return {{tensor, "value"}, {kRows, kColumns}, DType::kF32};
}
std::vector<Piece> pieces() {
  return {{array_of("a"), {0, 0, kRows, kColumns}},
          {{{"small", "value"}, {5}, DType::kF32}, {0, 0, 5, 1}},
          {array_of("b"), {0, 0, kRows, kColumns}}};
}

class ThreadsTest : public ::testing::Test {
 protected:
  ThreadsTest() : data(static_cast<std::size_t>(kRows * kColumns)) {
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i) * 0.5f;
  }
  StoredFile write(Files& files, const std::string& name) {
    CheckpointWriter writer(files, folder.path(), name, pieces());
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t all = pieces()[i].at.elements();
      for (std::int64_t at = 0; at < all; at += kBlockElements)
        writer.write(i, at, std::min(kBlockElements, all - at), data.data() + at);
    }
    return writer.finish();
  }
  void flip(std::int64_t at) {
    const auto file = real->open(folder / "file.h5", OpenMode::kReadWrite);
    std::byte byte{};
    file->read(&byte, 1, at);
    byte ^= std::byte{4};
    file->write(&byte, 1, at);
  }
  // As committed, of one file.
  Manifest save() {
    Manifest manifest{.step = 1, .files = {write(*real, "file.h5")}};
    write_whole_atomically(*real, folder / kManifestName, encode(manifest));
    return manifest;
  }
  std::vector<float> read(const CheckpointReader& reader, const char* tensor) {
    std::vector<float> all(data.size());
    reader.read({tensor, "value"}, {0, 0, kRows, kColumns}, DType::kF32, all.data());
    return all;
  }

  TemporaryFolder folder;
  std::shared_ptr<Files> real = real_files();
  std::vector<float> data;
};

TEST_F(ThreadsTest, PastThePageCacheTheFileIsTheSame) {
  PickyFiles picky(real);
  const StoredFile a = write(*real, "a.h5"), b = write(picky, "b.h5");
  EXPECT_EQ(read_whole(*real, folder / "a.h5"), read_whole(*real, folder / "b.h5"));
  ASSERT_EQ(a.pieces.size(), b.pieces.size());
  for (std::size_t i = 0; i < a.pieces.size(); ++i)
    EXPECT_EQ(a.pieces[i].hashes, b.pieces[i].hashes);
  EXPECT_EQ(a.rest_hash, b.rest_hash);
  EXPECT_GE(picky.pages, 14) << "all whole blocks";
}

// Behind the back of whoever writes: the error comes with a later block or at the end.
TEST_F(ThreadsTest, AWriteThatFailsLaterIsASentenceAndLeavesNoFile) {
  std::int64_t failed = 0;
  for (const bool sticky : {false, true})
    for (std::int64_t call = 1;; ++call) {
      const auto faulty = std::make_shared<testing::FaultyFiles>(
          testing::FaultPlan{testing::Fault::kDiskFull, call, sticky});
      PickyFiles picky(faulty);
      const std::string sentence = sentence_of([&] { write(picky, "x.h5"); });
      const bool there = real->exists(folder / "x.h5");
      if (there) real->remove(folder / "x.h5");
      if (faulty->fired() == 0) {
        EXPECT_EQ(sentence, "");
        break;
      }
      // A file that cannot be removed stays; nothing names it.
      EXPECT_TRUE(!sentence.empty() || there) << call;
      if (!sticky) {
        EXPECT_EQ(there, sentence.empty()) << call << " " << sentence;
      }
      failed += sentence.empty() ? 0 : 1;
    }
  EXPECT_GT(failed, 60);
}

TEST_F(ThreadsTest, ReadersAgreeWhateverTheirThreads) {
  save();
  for (const int threads : {1, 2, 5}) {
    const CheckpointReader reader(*real, folder.path(), threads);
    for (const char* tensor : {"a", "b"}) EXPECT_EQ(read(reader, tensor), data) << threads;
    std::vector<float> part(3 * 1000), expected;
    reader.read({"a", "value"}, {2, 500, 3, 1000}, DType::kF32, part.data());
    for (std::int64_t row = 2; row < 5; ++row)
      expected.insert(expected.end(), data.begin() + row * kColumns + 500,
                      data.begin() + row * kColumns + 1500);
    EXPECT_EQ(part, expected);
    std::vector<double> wide(data.size());
    reader.read({"b", "value"}, {0, 0, kRows, kColumns}, DType::kF64, wide.data());
    EXPECT_EQ(wide, std::vector<double>(data.begin(), data.end()));
  }
}

// Of several damaged blocks the first is named, however many threads look.
TEST_F(ThreadsTest, TheFirstDamagedBlockIsNamed) {
  const Manifest manifest = save();
  const std::int64_t offset = manifest.files[0].pieces[0].offset;
  for (const std::int64_t block : {6, 4, 2}) flip(offset + block * kHashBlock + 17);
  std::string first;
  for (const int threads : {1, 2, 5, 5, 5}) {
    const CheckpointReader reader(*real, folder.path(), threads);
    try {
      read(reader, "a");
      ADD_FAILURE() << "damage was read";
    } catch (const DamagedCheckpoint& damage) {
      if (first.empty()) first = damage.what();
      EXPECT_EQ(damage.what(), first);
      EXPECT_NE(first.find(join("bytes ", offset + 2 * kHashBlock)), std::string::npos) << first;
    }
  }
}

TEST_F(ThreadsTest, AGlanceSeesAllButArraysAndReadersTheRest) {
  const Manifest manifest = save();
  const StoredFile& file = manifest.files[0];
  EXPECT_TRUE(glance_at_checkpoint(*real, folder.path()).empty());
  flip(8);  // HDF5's own
  EXPECT_EQ(glance_at_checkpoint(*real, folder.path()).size(), 1u);
  flip(8);
  for (const StoredPiece& piece : file.pieces)
    for (std::size_t block = 0; block < piece.hashes.size(); ++block) {
      const std::int64_t at = piece.offset + static_cast<std::int64_t>(block) * kHashBlock;
      flip(at);
      EXPECT_TRUE(glance_at_checkpoint(*real, folder.path()).empty());
      const CheckpointReader reader(*real, folder.path(), 2);
      const auto read_all = [&] {
        read(reader, "a");
        reader.verify_unread();
      };
      EXPECT_THROW(read_all(), DamagedCheckpoint) << piece.dataset << " block " << block;
      flip(at);
    }
  const CheckpointReader reader(*real, folder.path());
  read(reader, "b");
  reader.verify_unread();
  real->remove(folder / "file.h5");
  EXPECT_THROW(read(reader, "a"), DamagedCheckpoint) << "gone meanwhile";
  EXPECT_THROW(CheckpointReader(*real, folder.path()), DamagedCheckpoint);
}

}  // namespace
}  // namespace trireme
