#include "recipes/cli/values.h"

#include <gtest/gtest.h>

#include "recipes/cli/nearest.h"

namespace trireme {
namespace {

TEST(Values, CountsAreWhole) {
  EXPECT_EQ(parse_count("25k"), 25000);
  EXPECT_EQ(parse_count("1.5M"), 1500000);
  EXPECT_EQ(parse_count("1e6"), 1000000);
  EXPECT_EQ(parse_count("2.5k"), 2500);
  EXPECT_EQ(parse_count("-3"), -3);
  EXPECT_EQ(parse_count("9007199254740991"), 9007199254740991);
  for (const char* rounds : {"9007199254740992", "9007199254740993", "-9007199254740993"})
    EXPECT_EQ(parse_count(rounds), std::nullopt) << rounds;
  for (auto text : {"1.5", "", "k", "1e", "1 2", "0x10", "1e300", "nan", "inf", "1kk", "1MiB"})
    EXPECT_FALSE(parse_count(text)) << text;
}

TEST(Values, SizesNameTheirUnit) {
  EXPECT_EQ(parse_size("64MiB"), 67108864);
  EXPECT_EQ(parse_size("1.5KiB"), 1536);
  EXPECT_EQ(parse_size("2 GiB"), 2147483648);
  EXPECT_EQ(parse_size("2GB"), 2000000000);
  EXPECT_EQ(parse_size("512"), 512);
  EXPECT_EQ(parse_size("512B"), 512);
  EXPECT_EQ(parse_size("1e6"), 1000000);
  for (auto text : {"64M", "2G", "64mib", "", "MiB", "1.5B", "x"})
    EXPECT_FALSE(parse_size(text)) << text;
  EXPECT_EQ(size_text(67108864), "64MiB");
  EXPECT_EQ(size_text(1536), "1536");
  EXPECT_EQ(size_text(3072), "3KiB");
}

TEST(Values, StepRanges) {
  EXPECT_TRUE(parse_step_range("10:13").contains(10));
  EXPECT_TRUE(parse_step_range("10:13").contains(13));
  EXPECT_FALSE(parse_step_range("10:13").contains(14));
  EXPECT_EQ(parse_step_range("7").end, 7);
  EXPECT_FALSE(parse_step_range("").contains(0));
}

TEST(Values, RangesAreThoseOfTheData) {
  Recipe recipe = default_recipe();
  const Key& skip = *find_key("data.skip");
  for (auto text : {"", "7", "100-200,350-360", "3,1-2"}) EXPECT_EQ(assign(skip, text, recipe), "");
  EXPECT_EQ(recipe.data.skip, "3,1-2");
  for (auto text : {"0", "2-1", "1,1", "1-5,3", "1,", ",1", "a", "1 - 2", "1e3"})
    EXPECT_NE(assign(skip, text, recipe), "") << text;
}

TEST(Values, DistanceCountsSwapsOnce) {
  EXPECT_EQ(edit_distance("optimzer", "optimizer"), 1);
  EXPECT_EQ(edit_distance("stpes", "steps"), 1);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", "abc"), 0);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(nearest_word("trian", {"tokenize", "train"}), "train");
  EXPECT_EQ(nearest_word("zzzzz", {"tokenize", "train"}), "");
}

}  // namespace
}  // namespace trireme
