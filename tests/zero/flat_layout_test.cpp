// The arithmetic of flat buffers: offsets, padding, shards, and what each element belongs to.
#include "zero/flat_layout.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

ParameterSpec vector_of(const std::string& name, std::int64_t n, bool decay = false) {
  return {.name = name, .shape = {n}, .sections = {whole_section(name, {n})}, .decay = decay};
}

FlatLayout layout_of(const std::vector<ParameterSpec>& specs, int ranks, std::int64_t bytes) {
  std::vector<const ParameterSpec*> pointers;
  for (const ParameterSpec& spec : specs) pointers.push_back(&spec);
  return FlatLayout(pointers, ranks, bytes);
}

TEST(FlatLayout, PadsToRanksTimesCacheLines) {
  for (int ranks : {1, 2, 3, 8})
    for (std::int64_t bytes : {2, 4, 8})
      for (std::int64_t n : {1, 31, 32, 33, 1000}) {
        const FlatLayout layout = layout_of({vector_of("a", n)}, ranks, bytes);
        const std::int64_t multiple = ranks * 64 / bytes;
        EXPECT_EQ(layout.elements(), n);
        EXPECT_EQ(layout.padded() % multiple, 0);
        EXPECT_GE(layout.padded(), n);
        EXPECT_LT(layout.padded(), n + multiple);
        std::int64_t end = 0;
        for (int r = 0; r < ranks; ++r) {
          EXPECT_EQ(layout.shard(r).begin, end);
          EXPECT_EQ(layout.shard(r).begin * bytes % 64, 0);
          end = layout.shard(r).end;
        }
        EXPECT_EQ(end, layout.padded());
      }
}

TEST(FlatLayout, EmptyAndOneElementParametersKeepTheirPlaces) {
  const FlatLayout layout = layout_of(
      {vector_of("a", 8), vector_of("b", 0), vector_of("c", 1), vector_of("d", 24)}, 2, 8);
  EXPECT_EQ(layout.offset(1), 8);
  EXPECT_EQ(layout.offset(2), 8);
  EXPECT_EQ(layout.offset(3), 9);
  EXPECT_EQ(layout.elements(), 33);
  ASSERT_EQ(layout.segments().size(), 3U);  // nothing of the empty one
  EXPECT_EQ(layout.segments()[1].parameter, 2);
  EXPECT_EQ(layout.segments()[1].range.size(), 1);
}

TEST(FlatLayout, MoreRanksThanElements) {
  const FlatLayout layout = layout_of({vector_of("a", 3)}, 8, 8);
  EXPECT_EQ(layout.padded(), 64);
  EXPECT_EQ(intersect(layout.segments()[0].range, layout.shard(0)).size(), 3);
  for (int r = 1; r < 8; ++r)
    EXPECT_TRUE(intersect(layout.segments()[0].range, layout.shard(r)).empty());
}

TEST(FlatLayout, NothingAtAll) {
  const FlatLayout layout = layout_of({}, 4, 8);
  EXPECT_EQ(layout.padded(), 0);
  EXPECT_TRUE(layout.shard(3).empty());
}

TEST(FlatLayout, SegmentsSayWhatSectionsSay) {
  Section q{.name = "q", .logical = {4, 3}, .rows = 2};
  Section k{.name = "k", .logical = {2, 3}, .local_row = 3, .rows = 1};
  k.sum = SumGroup::kKvReplicas;
  k.counts_in_norm = false;
  ParameterSpec fused{.name = "qk", .shape = {5, 3}, .sections = {q, k}};
  ParameterSpec frozen = vector_of("frozen", 7);
  frozen.trainable = false;
  const FlatLayout layout = layout_of({frozen, fused, vector_of("bias", 2)}, 1, 8);
  ASSERT_EQ(layout.segments().size(), 3U);
  const Segment &first = layout.segments()[0], &second = layout.segments()[1];
  EXPECT_EQ(first.range.begin, 7);
  EXPECT_EQ(first.range.end, 13);
  EXPECT_TRUE(first.decay);
  EXPECT_TRUE(first.counts_in_norm);
  EXPECT_EQ(second.range.begin, 16);  // local row 2 is padding
  EXPECT_EQ(second.range.end, 19);
  EXPECT_EQ(second.sum, SumGroup::kKvReplicas);
  EXPECT_FALSE(second.counts_in_norm);
  EXPECT_FALSE(layout.segments()[2].decay);
  EXPECT_EQ(layout.segments()[2].range.begin, 22);
}

}  // namespace
}  // namespace trireme
