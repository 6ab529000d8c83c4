// What was saved under one cut comes back under any other, bit by bit, or converted once.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "framework/base/error.h"
#include "framework/base/rounding.h"
#include "framework/checkpoint/checkpoint_writer.h"
#include "tests/framework/checkpoint/random_state.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

using testing::bytes_of;
using testing::Cut;
using testing::difference_from;
using testing::flat_cut;
using testing::random_cut;
using testing::random_state;
using testing::RandomState;
using testing::save_state;
using testing::sentence_of;
using testing::TemporaryFolder;

TEST(RoundTrip, AnyCutReadsAsAnyOther) {
  const auto files = real_files();
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const TemporaryFolder folder;
    const RandomState state = random_state(seed, 90);
    const Cut saved = seed % 2 ? random_cut(state, 3, seed) : flat_cut(state, 5);
    CheckpointFolder checkpoints(*files, folder / "checkpoints");
    save_state(*files, checkpoints, 7, state, saved);
    const CheckpointReader reader(*files, checkpoints.folder_of(7));
    EXPECT_TRUE(reader.verify().empty());
    EXPECT_EQ(difference_from(reader, state), "");
    for (const Cut& wanted : {random_cut(state, 4, seed + 100), flat_cut(state, 7)})
      for (const auto& pieces : wanted)
        for (const Piece& piece : pieces) {
          const auto expected = bytes_of(state, piece.array, piece.at);
          std::vector<std::byte> read(expected.size());
          reader.read(piece.array.name, piece.at, piece.array.dtype, read.data());
          ASSERT_EQ(read, expected) << describe(piece.array.name);
        }
  }
}

// Several blocks a piece, wide and narrow rectangles, blocks that a rectangle skips; each read
// twice: with and without the hash to compare.
TEST(RoundTrip, PiecesOfManyBlocks) {
  const auto files = real_files();
  const TemporaryFolder folder;
  RandomState state;
  for (const Shape& shape : {Shape{3, 400000}, Shape{400000, 3}, Shape{1200001}}) {
    const auto count = shape.elements();
    state.arrays.push_back({{"w" + std::to_string(state.arrays.size()), "value"}, shape});
    std::vector<std::byte> bytes(static_cast<std::size_t>(count) * 4);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<float>(i);
      std::memcpy(bytes.data() + 4 * i, &value, 4);
    }
    state.bytes.push_back(std::move(bytes));
  }
  Cut cut(1);
  for (const LogicalArray& array : state.arrays)
    cut[0].push_back({array, {0, 0, array.rows(), array.columns()}});
  CheckpointFolder checkpoints(*files, folder / "checkpoints");
  save_state(*files, checkpoints, 1, state, cut);
  const CheckpointReader reader(*files, checkpoints.folder_of(1));
  const std::vector<Rectangle> parts[] = {
      {{0, 0, 3, 400000}, {0, 399999, 3, 1}, {1, 5, 2, 300000}, {2, 0, 1, 400000}},
      {{0, 0, 400000, 3}, {0, 2, 400000, 1}, {131071, 0, 200000, 2}, {399999, 2, 1, 1}},
      {{0, 0, 1200001, 1}, {262143, 0, 2, 1}, {1200000, 0, 1, 1}, {524288, 0, 262144, 1}}};
  for (int pass = 0; pass < 2; ++pass)
    for (std::size_t a = 0; a < 3; ++a)
      for (const Rectangle& part : parts[a]) {
        const auto expected = bytes_of(state, state.arrays[a], part);
        std::vector<std::byte> read(expected.size());
        reader.read(state.arrays[a].name, part, DType::kF32, read.data());
        ASSERT_TRUE(read == expected) << "array " << a << " row " << part.row;
      }
}

// One number of every kind, through every pair of types.
TEST(RoundTrip, ConvertsToNearestEvenAtOnce) {
  const std::vector<double> numbers = {0.0,
                                       -0.0,
                                       1.0,
                                       -2.5,
                                       65504.0,
                                       65520.0,
                                       1e300,
                                       -1e-300,
                                       6e-8,
                                       3.14159265358979,
                                       1.0 + std::ldexp(1.0, -8),
                                       1.0 + std::ldexp(1.0, -8) + std::ldexp(1.0, -40),
                                       1.0 + std::ldexp(1.0, -11),
                                       1.0 + std::ldexp(1.0, -11) + std::ldexp(1.0, -50),
                                       1.0 + std::ldexp(1.0, -24),
                                       std::numeric_limits<double>::infinity(),
                                       std::numeric_limits<double>::quiet_NaN()};
  const auto count = static_cast<std::int64_t>(numbers.size());
  const LogicalArray array{{"w", "value"}, {count}, DType::kF64};
  const auto files = real_files();
  const TemporaryFolder folder;
  Manifest manifest;
  CheckpointFolder checkpoints(*files, folder / "checkpoints");
  CheckpointWriter writer(*files, checkpoints.begin(0), "ranks-0.h5", {{array, {0, 0, count, 1}}});
  writer.write(0, 0, count, numbers.data());
  manifest.files.push_back(writer.finish());
  checkpoints.commit(manifest);
  const CheckpointReader reader(*files, checkpoints.folder_of(0));
  const Rectangle all{0, 0, count, 1};
  std::vector<float> f32(numbers.size());
  std::vector<BFloat16> bf16(numbers.size());
  std::vector<Float16> f16(numbers.size());
  reader.read(array.name, all, DType::kF32, f32.data());
  reader.read(array.name, all, DType::kBF16, bf16.data());
  reader.read(array.name, all, DType::kF16, f16.data());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (std::isnan(numbers[i])) {
      EXPECT_TRUE(std::isnan(f32[i]) && std::isnan(float(bf16[i])) && std::isnan(float(f16[i])));
      continue;
    }
    EXPECT_EQ(f32[i], static_cast<float>(numbers[i])) << numbers[i];
    EXPECT_EQ(bf16[i].bits, round_to_bf16(numbers[i]).bits) << numbers[i];
    EXPECT_EQ(f16[i].bits, round_to_f16(numbers[i]).bits) << numbers[i];
  }
  EXPECT_EQ(float(bf16[11]), 1.0f + std::ldexp(1.0f, -7));  // through f32 it would be 1
  std::vector<std::int32_t> wrong(numbers.size());
  EXPECT_NE(sentence_of([&] { reader.read(array.name, all, DType::kI32, wrong.data()); }), "");
}

TEST(RoundTrip, NarrowTypesWiden) {
  const auto files = real_files();
  const TemporaryFolder folder;
  const RandomState state = random_state(3, 40);
  CheckpointFolder checkpoints(*files, folder / "checkpoints");
  save_state(*files, checkpoints, 1, state, random_cut(state, 2, 5));
  const CheckpointReader reader(*files, checkpoints.folder_of(1));
  for (const LogicalArray& array : state.arrays) {
    const Rectangle all{0, 0, array.rows(), array.columns()};
    const auto bytes = bytes_of(state, array, all);
    std::vector<double> wide(static_cast<std::size_t>(all.elements()));
    reader.read(array.name, all, DType::kF64, wide.data());
    // Back again, the bits must be the same.
    CheckpointFolder again(*files, folder / "again");
    std::vector<std::byte> narrow(bytes.size());
    reader.read(array.name, all, array.dtype, narrow.data());
    EXPECT_EQ(narrow, bytes);
    double sum = 0, expected = 0;
    for (std::size_t i = 0; i < wide.size(); ++i) {
      double x = 0;
      if (array.dtype == DType::kF64) std::memcpy(&x, bytes.data() + 8 * i, 8);
      float f = 0;
      BFloat16 b{};
      Float16 h{};
      if (array.dtype == DType::kF32) std::memcpy(&f, bytes.data() + 4 * i, 4), x = f;
      if (array.dtype == DType::kBF16) std::memcpy(&b, bytes.data() + 2 * i, 2), x = float(b);
      if (array.dtype == DType::kF16) std::memcpy(&h, bytes.data() + 2 * i, 2), x = float(h);
      ASSERT_EQ(wide[i], x);
      sum += wide[i];
      expected += x;
    }
    EXPECT_EQ(sum, expected);
  }
}

TEST(RoundTrip, SaveLoadSaveIsByteEqual) {
  const auto files = real_files();
  const TemporaryFolder folder;
  const RandomState state = random_state(9, 60);
  const Cut cut = random_cut(state, 3, 1);
  CheckpointFolder first(*files, folder / "first"), second(*files, folder / "second");
  save_state(*files, first, 12, state, cut);
  RandomState loaded = state;
  const CheckpointReader reader(*files, first.folder_of(12));
  for (std::size_t a = 0; a < state.arrays.size(); ++a) {
    const LogicalArray& array = state.arrays[a];
    std::fill(loaded.bytes[a].begin(), loaded.bytes[a].end(), std::byte{});
    reader.read(array.name, {0, 0, array.rows(), array.columns()}, array.dtype,
                loaded.bytes[a].data());
  }
  save_state(*files, second, 12, loaded, cut);
  const auto names = files->list(first.folder_of(12));
  EXPECT_EQ(names, (std::vector<std::string>{"checkpoint.h5", "manifest.json", "ranks-0.h5",
                                             "ranks-1.h5", "ranks-2.h5", "recipe.cfg"}));
  for (const std::string& name : names)
    EXPECT_EQ(read_whole(*files, path_join(first.folder_of(12), name)),
              read_whole(*files, path_join(second.folder_of(12), name)))
        << name;
}

TEST(RoundTrip, OneReaderServesManyThreads) {
  const auto files = real_files();
  const TemporaryFolder folder;
  const RandomState state = random_state(4, 300);
  CheckpointFolder checkpoints(*files, folder / "checkpoints");
  save_state(*files, checkpoints, 1, state, random_cut(state, 2, 8));
  const CheckpointReader reader(*files, checkpoints.folder_of(1));
  std::vector<std::string> found(4, "never ran");
  std::vector<std::thread> threads;
  for (std::string& one : found)
    threads.emplace_back([&] { one = difference_from(reader, state); });
  for (auto& thread : threads) thread.join();
  for (const std::string& one : found) EXPECT_EQ(one, "");
}

TEST(Reader, SaysWhatIsNotThere) {
  const auto files = real_files();
  const TemporaryFolder folder;
  const RandomState state = random_state(5, 20);
  CheckpointFolder checkpoints(*files, folder / "checkpoints");
  save_state(*files, checkpoints, 1, state, random_cut(state, 2, 5));
  const std::string path = checkpoints.folder_of(1);
  const CheckpointReader reader(*files, path);
  float x = 0;
  EXPECT_EQ(sentence_of([&] {
              reader.read({"one", "exp_avg"}, {0, 0, 1, 1}, DType::kF32, &x);
            }),
            "checkpoint " + path + " has no tensor \"one\" (exp_avg)");
  EXPECT_NE(sentence_of([&] {
              reader.read({"one", "value"}, {1, 0, 1, 1}, DType::kF32, &x);
            }).find("not inside its shape (1)"),
            std::string::npos);
  EXPECT_EQ(
      sentence_of([&] {
        reader.expect_shape({"one", "value"}, {2, 1});
      }),
      "checkpoint " + path + ": tensor \"one\" (value) has the shape (1), the model wants (2, 1)");
  EXPECT_EQ(sentence_of([&] { reader.expect_shape({"one", "value"}, {1}); }), "");
  EXPECT_TRUE(reader.has({"one", "value"}));
  EXPECT_FALSE(reader.has({"one", "valu"}));
}

}  // namespace
}  // namespace trireme
