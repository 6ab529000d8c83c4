// One process's file: what may be written, in which order, and what the file then has.
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "framework/base/error.h"
#include "framework/base/storage/content_hash.h"
#include "framework/checkpoint/checkpoint_writer.h"
#include "tests/framework/checkpoint/random_state.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

using testing::sentence_of;
using testing::TemporaryFolder;

constexpr std::int64_t kBlockElements = kHashBlock / 4;
constexpr std::int64_t kElements = 3 * kBlockElements + 100;

std::vector<float> numbers(std::int64_t count) {
  std::vector<float> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 1.0f);
  return all;
}

std::vector<Piece> one_piece() {
  return {{{{"w", "value"}, {kElements}, DType::kF32}, {0, 0, kElements, 1}}};
}

class WriterTest : public ::testing::Test {
 protected:
  WriterTest() : files(real_files()), data(numbers(kElements)) {}
  void write(CheckpointWriter& writer, std::int64_t begin, std::int64_t end) {
    writer.write(0, begin, end - begin, data.data() + begin);
  }
  StoredFile quiet() {
    CheckpointWriter writer(*files, folder.path(), "quiet.h5", one_piece());
    write(writer, 0, kElements);
    return writer.finish();
  }

  TemporaryFolder folder;
  std::unique_ptr<Files> files;
  std::vector<float> data;
};

TEST_F(WriterTest, TellsWhereAndWithWhatHashes) {
  const StoredFile stored = quiet();
  ASSERT_EQ(stored.pieces.size(), 1u);
  const StoredPiece& piece = stored.pieces[0];
  EXPECT_EQ(stored.name, "quiet.h5");
  EXPECT_EQ(piece.dataset, "/w/value/0,0");
  EXPECT_EQ(piece.offset % 4096, 0);
  const std::string bytes = read_whole(*files, folder / "quiet.h5");
  EXPECT_EQ(static_cast<std::int64_t>(bytes.size()), stored.bytes);
  EXPECT_EQ(std::memcmp(bytes.data() + piece.offset, data.data(), kElements * 4), 0);
  ASSERT_EQ(piece.hashes.size(), 4u);
  for (std::int64_t b = 0; b < 4; ++b)
    EXPECT_EQ(piece.hashes[static_cast<std::size_t>(b)],
              block_hash(data.data() + b * kBlockElements, b < 3 ? kHashBlock : 400));
  std::string rest = bytes;
  rest.erase(static_cast<std::size_t>(piece.offset), kElements * 4);
  EXPECT_EQ(stored.rest_hash, block_hash(rest.data(), static_cast<std::int64_t>(rest.size())));
}

// Equal checkpoints are equal files, whenever they were made: the root group's header, behind the
// superblock of 48 bytes, keeps no time. That HDF5 still takes its checksum, other tests show.
TEST_F(WriterTest, KeepsNoTime) {
  quiet();
  const std::string header = read_whole(*files, folder / "quiet.h5").substr(48, 22);
  EXPECT_EQ(header.substr(0, 6), "OHDR\x02 ");
  EXPECT_EQ(header.substr(6), std::string(16, '\0'));
}

TEST_F(WriterTest, AnyAllowedOrderGivesTheSame) {
  const StoredFile expected = quiet();
  const auto expect_same = [&](const std::string& name, StoredFile stored) {
    EXPECT_EQ(read_whole(*files, folder / name), read_whole(*files, folder / "quiet.h5"));
    EXPECT_EQ(stored.pieces[0].hashes, expected.pieces[0].hashes);
    EXPECT_EQ(stored.rest_hash, expected.rest_hash);
  };
  {
    CheckpointWriter writer(*files, folder.path(), "in-order.h5", one_piece());
    for (std::int64_t at = 0; at < kElements; at += 77777)
      write(writer, at, std::min(kElements, at + 77777));
    expect_same("in-order.h5", writer.finish());
  }
  {
    CheckpointWriter writer(*files, folder.path(), "backwards.h5", one_piece());
    for (std::int64_t b = 3; b >= 0; --b)
      write(writer, b * kBlockElements, std::min(kElements, (b + 1) * kBlockElements));
    expect_same("backwards.h5", writer.finish());
  }
  {
    CheckpointWriter writer(*files, folder.path(), "threads.h5", one_piece());
    std::vector<std::thread> threads;
    for (std::int64_t b = 0; b < 4; ++b)
      threads.emplace_back([&, b] {
        const std::int64_t begin = b * kBlockElements;
        const std::int64_t end = std::min(kElements, begin + kBlockElements);
        const std::int64_t middle = (begin + end) / 2;
        write(writer, begin, middle);
        write(writer, middle, end);
      });
    for (auto& thread : threads) thread.join();
    expect_same("threads.h5", writer.finish());
  }
}

TEST_F(WriterTest, RefusesWhatWouldLeaveHoles) {
  CheckpointWriter writer(*files, folder.path(), "f.h5", one_piece());
  EXPECT_NE(sentence_of([&] { write(writer, 5, 10); }), "");  // what comes before is not there
  write(writer, 0, 10);
  EXPECT_NE(sentence_of([&] { write(writer, 0, 10); }).find("comes twice"), std::string::npos);
  EXPECT_NE(sentence_of([&] { write(writer, 12, 20); }), "");
  EXPECT_NE(sentence_of([&] { writer.write(0, kElements, 1, data.data()); }), "");
  EXPECT_NE(sentence_of([&] { writer.write(0, -1, 1, data.data()); }), "");
  EXPECT_NE(sentence_of([&] { writer.write(1, 0, 1, data.data()); }), "");
  EXPECT_NE(sentence_of([&] { writer.finish(); }).find("not all of its bytes from 0 on"),
            std::string::npos);
  write(writer, 10, 3 * kBlockElements);
  EXPECT_NE(sentence_of([&] { writer.finish(); }).find("from 3145728 on"), std::string::npos);
  write(writer, 3 * kBlockElements, kElements);
  EXPECT_EQ(sentence_of([&] { writer.finish(); }), "");
}

TEST_F(WriterTest, LeavesNothingUnlessFinished) {
  {
    CheckpointWriter writer(*files, folder.path(), "f.h5", one_piece());
    write(writer, 0, 10);
  }
  EXPECT_TRUE(files->list(folder.path()).empty());
  const auto refusal = [&](const std::vector<Piece>& pieces, const std::string& name = "f.h5") {
    const std::string sentence =
        sentence_of([&] { CheckpointWriter(*files, folder.path(), name, pieces); });
    EXPECT_TRUE(files->list(folder.path()).empty());
    return sentence;
  };
  const LogicalArray matrix{{"w", "value"}, {4, 4}, DType::kF32};
  EXPECT_NE(refusal({{matrix, {0, 0, 2, 4}}, {matrix, {1, 3, 1, 1}}})
                .find("row 1, column 3 is in two pieces"),
            std::string::npos);
  LogicalArray other = matrix;
  other.dtype = DType::kF64;
  EXPECT_NE(refusal({{matrix, {0, 0, 1, 4}}, {other, {1, 0, 1, 4}}}).find("two shapes or types"),
            std::string::npos);
  EXPECT_NE(refusal({{matrix, {0, 0, 5, 4}}}), "");
  EXPECT_NE(refusal({}, "../f.h5"), "");
  const std::int64_t much = std::int64_t{1} << 50;  // more than any disk here
  EXPECT_NE(refusal({{{{"w", "value"}, {much}, DType::kF32}, {0, 0, much, 1}}}).find(" free"),
            std::string::npos);
}

TEST_F(WriterTest, NeverOverwrites) {
  quiet();
  EXPECT_NE(sentence_of([&] { quiet(); }).find("is there already"), std::string::npos);
  EXPECT_TRUE(files->exists(folder / "quiet.h5"));
}

TEST_F(WriterTest, EmptyPiecesAreLeftOut) {
  const LogicalArray matrix{{"w", "value"}, {4, 4}, DType::kF32};
  CheckpointWriter writer(*files, folder.path(), "f.h5",
                          {{matrix, {0, 0, 0, 4}}, {matrix, {1, 0, 1, 4}}, {matrix, {2, 4, 2, 0}}});
  writer.write(0, 0, 0, nullptr);
  writer.write(1, 0, 4, data.data());
  const StoredFile stored = writer.finish();
  ASSERT_EQ(stored.pieces.size(), 1u);
  EXPECT_EQ(stored.pieces[0].dataset, "/w/value/1,0");
  CheckpointWriter none(*files, folder.path(), "none.h5", {});
  EXPECT_TRUE(none.finish().pieces.empty());
}

// From above, and not by much: a save is refused by it.
TEST_F(WriterTest, BytesNeededHoldForAnyNumberOfPieces) {
  for (const std::int64_t tensors : {0, 1, 9, 70, 700}) {
    std::vector<Piece> pieces;
    for (std::int64_t t = 0; t < tensors; ++t)
      for (const std::string name : {"value", "exp_avg", "exp_avg_sq"}) {
        const LogicalArray array{{"layers." + std::to_string(t) + ".weight", name}, {6, 500 + t}};
        for (std::int64_t row = 0; row < 6; row += 1 + t % 3) {
          const std::int64_t rows = std::min(1 + t % 3, 6 - row);
          pieces.push_back({array, {row, 0, rows, 500 + t}});
        }
      }
    const std::string name = std::to_string(tensors) + ".h5";
    CheckpointWriter writer(*files, folder.path(), name, pieces);
    const std::int64_t needed = CheckpointWriter::bytes_needed(pieces);
    const std::int64_t taken = files->status(folder / name).bytes;
    EXPECT_LE(taken, needed) << tensors;
    // What it may be off by: alignment that cost less than it could, and a KiB an object.
    const auto objects = static_cast<std::int64_t>(pieces.size()) + 4 * tensors;
    EXPECT_LE(needed - taken,
              16384 + 4096 * static_cast<std::int64_t>(pieces.size()) + 1024 * objects);
  }
}

}  // namespace
}  // namespace trireme
