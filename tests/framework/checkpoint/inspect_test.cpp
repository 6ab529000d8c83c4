// What `trireme checkpoint inspect` and `diff` compute.
#include "framework/checkpoint/inspect.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/framework/checkpoint/random_state.h"
#include "tests/support/simulated_files.h"

namespace trireme {
namespace {

using testing::Cut;
using testing::flat_cut;
using testing::random_cut;
using testing::random_state;
using testing::RandomState;
using testing::save_state;
using testing::SimulatedFiles;

RandomState state_of(const std::vector<LogicalArray>& arrays,
                     const std::vector<std::vector<float>>& values) {
  RandomState state;
  state.arrays = arrays;
  for (const auto& array : values) {
    const auto* bytes = reinterpret_cast<const std::byte*>(array.data());
    state.bytes.emplace_back(bytes, bytes + 4 * array.size());
  }
  return state;
}

class InspectTest : public ::testing::Test {
 protected:
  CheckpointReader save(const RandomState& state, const Cut& cut) {
    save_state(files, folder, ++step, state, cut);
    return CheckpointReader(files, folder.folder_of(step));
  }

  SimulatedFiles files;
  CheckpointFolder folder{files, "run/checkpoints"};
  std::int64_t step = 0;
};

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST_F(InspectTest, SumsUpEveryArray) {
  const RandomState state =
      state_of({{{"a", "value"}, {2, 3}}, {{"b", "value"}, {2}}, {{"c", "value"}, {1}}},
               {{3, 0, -4, kNaN, 0, 0}, {kNaN, kNaN}, {-kInfinity}});
  const auto reader = save(state, flat_cut(state, 2));
  const auto rows = inspect(reader);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].array, state.arrays[0]);
  EXPECT_EQ(rows[0].norm, 5);
  EXPECT_EQ(rows[0].nans, 1);
  EXPECT_EQ(rows[0].infinities, 0);
  EXPECT_EQ(rows[0].smallest, -4);
  EXPECT_EQ(rows[0].largest, 3);
  EXPECT_EQ(rows[1].nans, 2);
  EXPECT_EQ(rows[1].norm, 0);
  EXPECT_EQ(rows[1].smallest, 0);
  EXPECT_EQ(rows[2].infinities, 1);
  EXPECT_EQ(rows[2].largest, -kInfinity);
}

// More than one part, both ways.
TEST_F(InspectTest, StreamsWhatIsLarge) {
  const Shape wide{2, 300000}, tall{300000, 2};
  std::vector<float> ones(600000, 1.0f);
  ones[599999] = 2.0f;
  const RandomState state =
      state_of({{{"tall", "value"}, tall}, {{"wide", "value"}, wide}}, {ones, ones});
  for (const ArraySummary& row : inspect(save(state, flat_cut(state, 3)))) {
    EXPECT_EQ(row.norm, std::sqrt(600003.0));
    EXPECT_EQ(row.largest, 2);
    EXPECT_EQ(row.smallest, 1);
  }
  RandomState other = state;
  for (auto& bytes : other.bytes) bytes[4 * 599999 + 3] ^= std::byte{0x80};  // -2
  const auto found = difference(save(state, flat_cut(state, 3)), save(other, flat_cut(state, 1)));
  ASSERT_EQ(found.arrays.size(), 2u);
  EXPECT_EQ(found.arrays[0].differing, 1);
  EXPECT_EQ(found.arrays[0].largest, 4);
  EXPECT_EQ(found.arrays[0].row, 299999);
  EXPECT_EQ(found.arrays[0].column, 1);
  EXPECT_EQ(found.arrays[1].row, 1);
  EXPECT_EQ(found.arrays[1].column, 299999);
}

TEST_F(InspectTest, TheSameUnderAnotherLayoutDiffersInNothing) {
  const RandomState state = random_state(6, 40);
  const auto a = save(state, random_cut(state, 3, 1));
  const auto b = save(state, flat_cut(state, 4));
  EXPECT_TRUE(equal_arrays(a, b));
  const auto found = difference(a, b);
  EXPECT_TRUE(found.arrays.empty());
  ASSERT_EQ(found.scalars.size(), 1u);
  EXPECT_EQ(found.scalars.at("steps_taken"), (std::pair<std::string, std::string>{"1", "2"}));
}

TEST_F(InspectTest, DifferencesAreOfEveryKind) {
  const LogicalArray here{{"here", "value"}, {2}}, there{{"there", "value"}, {2}};
  const LogicalArray shape{{"shape", "value"}, {2}}, other_shape{{"shape", "value"}, {1, 2}};
  const LogicalArray nan{{"nan", "value"}, {4}}, zero{{"zero", "value"}, {1}};
  const RandomState first =
      state_of({here, shape, nan, zero}, {{1, 2}, {1, 2}, {kNaN, kNaN, 1, 5}, {0.0f}});
  const RandomState second =
      state_of({there, other_shape, nan, zero}, {{1, 2}, {1, 2}, {kNaN, 0, 2, 5}, {-0.0f}});
  const auto a = save(first, flat_cut(first, 1));
  const auto b = save(second, flat_cut(second, 1));
  const auto found = difference(a, b).arrays;
  ASSERT_EQ(found.size(), 5u);
  EXPECT_EQ(found[0].name.tensor, "here");
  EXPECT_TRUE(found[0].in_first && !found[0].in_second && !found[0].compared);
  EXPECT_EQ(found[1].name.tensor, "nan");
  EXPECT_EQ(found[1].differing, 2);
  EXPECT_EQ(found[1].largest, kInfinity);
  EXPECT_EQ(found[1].row, 1);
  EXPECT_EQ(found[2].name.tensor, "shape");
  EXPECT_FALSE(found[2].compared);
  EXPECT_EQ(found[3].name.tensor, "there");
  EXPECT_TRUE(!found[3].in_first && found[3].in_second);
  EXPECT_EQ(found[4].name.tensor, "zero");
  EXPECT_EQ(found[4].differing, 1);
  EXPECT_EQ(found[4].largest, 0);
  EXPECT_FALSE(equal_arrays(a, b));
}

TEST_F(InspectTest, OtherTypesAreComparedAsValues) {
  const RandomState wide = state_of({{{"w", "value"}, {2}, DType::kF32}}, {{1, 2}});
  RandomState narrow;
  narrow.arrays = {{{"w", "value"}, {2}, DType::kBF16}};
  const BFloat16 values[2] = {BFloat16(1), BFloat16(2)};
  const auto* bytes = reinterpret_cast<const std::byte*>(values);
  narrow.bytes = {{bytes, bytes + 4}};
  const auto found =
      difference(save(wide, flat_cut(wide, 1)), save(narrow, flat_cut(narrow, 1))).arrays;
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].compared);
  EXPECT_EQ(found[0].differing, 0);
  EXPECT_EQ(found[0].second.dtype, DType::kBF16);
}

}  // namespace
}  // namespace trireme
