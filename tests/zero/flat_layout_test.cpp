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

// P7: an empty parameter moves nothing: same places, same shards as without it.
TEST(FlatLayout, P7_AnEmptyParameterMovesNothing) {
  const FlatLayout with =
                       layout_of({vector_of("a", 8), vector_of("b", 0), vector_of("c", 24)}, 2, 4),
                   without = layout_of({vector_of("a", 8), vector_of("c", 24)}, 2, 4);
  EXPECT_EQ(with.elements(), 32);
  EXPECT_EQ(with.padded(), 32);
  EXPECT_EQ(with.shard(0), (Range{0, 16}));
  EXPECT_EQ(with.shard(1), (Range{16, 32}));
  EXPECT_EQ(with.offset(1), 8);
  EXPECT_EQ(with.offset(2), 8);
  ASSERT_EQ(with.segments().size(), 2U);
  EXPECT_EQ(with.segments()[1].parameter, 2);
  for (std::size_t s = 0; s < 2; ++s)
    EXPECT_EQ(with.segments()[s].range, without.segments()[s].range);
  EXPECT_EQ(with.padded(), without.padded());
}

TEST(FlatLayout, EmptyMatricesHaveNoSegments) {
  for (const Shape& shape : {Shape{0, 5}, Shape{5, 0}, Shape{0, 0}}) {
    ParameterSpec empty{.name = "e", .shape = shape, .sections = {whole_section("e", shape)}};
    const FlatLayout layout = layout_of({vector_of("a", 1), empty, vector_of("b", 1)}, 2, 8);
    EXPECT_EQ(layout.elements(), 2);
    EXPECT_EQ(layout.offset(2), 1);
    EXPECT_EQ(layout.segments().size(), 2U);
  }
}

TEST(FlatLayout, OneElementAlone) {
  const FlatLayout layout = layout_of({vector_of("a", 1)}, 4, 2);
  EXPECT_EQ(layout.padded(), 4 * 32);
  EXPECT_EQ(layout.segments()[0].range, (Range{0, 1}));
  for (int r = 0; r < 4; ++r)
    EXPECT_EQ(intersect(layout.segments()[0].range, layout.shard(r)).size(), r == 0 ? 1 : 0);
}

// Weights, gradients and states of a unit share one layout, made for the narrowest: a shard begins
// on a cache line in each.
TEST(FlatLayout, MixedElementSizesShareOneLayout) {
  for (std::int64_t narrowest : {2, 4, 8})
    for (int ranks : {1, 2, 3, 7}) {
      const FlatLayout layout =
          layout_of({vector_of("a", 100), vector_of("b", 1), vector_of("c", 77)}, ranks, narrowest);
      EXPECT_EQ(layout.padded() % ranks, 0);
      for (std::int64_t bytes = narrowest; bytes <= 8; bytes *= 2)
        for (int r = 0; r < ranks; ++r) {
          EXPECT_EQ(layout.shard(r).begin * bytes % 64, 0);
          EXPECT_EQ(layout.shard(r).size(), layout.padded() / ranks);
        }
    }
}

TEST(FlatLayout, DecaySegmentsCoverEachElementOnce) {
  ParameterSpec matrix{.name = "w", .shape = {3, 4}, .sections = {whole_section("w", {3, 4})}};
  const FlatLayout layout =
      layout_of({matrix, vector_of("bias", 3), matrix, vector_of("gain", 4)}, 3, 8);
  std::vector<int> decays(static_cast<std::size_t>(layout.padded()), -1);
  for (const Segment& segment : layout.segments())
    for (std::int64_t i = segment.range.begin; i < segment.range.end; ++i) {
      EXPECT_EQ(decays[static_cast<std::size_t>(i)], -1);
      decays[static_cast<std::size_t>(i)] = segment.decay;
    }
  // By hand: 12 that decay, 3 that do not, 12, 4, then padding to 3 x 16.
  std::vector<int> expected(48, -1);
  for (int i = 0; i < 31; ++i)
    expected[static_cast<std::size_t>(i)] = i < 12 || (i >= 15 && i < 27) ? 1 : 0;
  EXPECT_EQ(decays, expected);
}

// A shard that cuts a matrix in the middle of a row: the parts of all ranks are the whole.
TEST(FlatLayout, ShardsCutSegmentsAnywhere) {
  ParameterSpec matrix{.name = "w", .shape = {5, 7}, .sections = {whole_section("w", {5, 7})}};
  const FlatLayout layout = layout_of({matrix, vector_of("bias", 2)}, 3, 8);
  EXPECT_EQ(layout.padded(), 48);
  const Range weight = layout.segments()[0].range, bias = layout.segments()[1].range;
  EXPECT_EQ(intersect(weight, layout.shard(1)), (Range{16, 32}));
  EXPECT_EQ(intersect(weight, layout.shard(2)), (Range{32, 35}));
  EXPECT_EQ(intersect(bias, layout.shard(2)), (Range{35, 37}));
  EXPECT_TRUE(intersect(bias, layout.shard(0)).empty());
}

// The copy of a tied table that does not count still has its place, its sum and its update.
TEST(FlatLayout, TiedCopiesAreMarkedNotLeftOut) {
  Section copy{.name = "table", .logical = {4, 2}, .rows = 4};
  copy.sum = SumGroup::kEnds;
  copy.counts_in_norm = false;
  const ParameterSpec tied{.name = "table", .shape = {4, 2}, .sections = {copy}};
  const FlatLayout layout = layout_of({tied, vector_of("bias", 2)}, 2, 8);
  ASSERT_EQ(layout.segments().size(), 2U);
  EXPECT_EQ(layout.segments()[0].range, (Range{0, 8}));
  EXPECT_EQ(layout.segments()[0].sum, SumGroup::kEnds);
  EXPECT_FALSE(layout.segments()[0].counts_in_norm);
  EXPECT_TRUE(layout.segments()[0].decay);
  EXPECT_EQ(layout.segments()[1].sum, SumGroup::kNone);
  EXPECT_TRUE(layout.segments()[1].counts_in_norm);
}

TEST(FlatLayout, FrozenParametersKeepTheirPlacesWithoutSegments) {
  ParameterSpec frozen = vector_of("frozen", 6);
  frozen.trainable = false;
  const FlatLayout between = layout_of({vector_of("a", 3), frozen, vector_of("b", 5)}, 2, 8);
  EXPECT_EQ(between.elements(), 14);
  EXPECT_EQ(between.offset(2), 9);
  ASSERT_EQ(between.segments().size(), 2U);
  EXPECT_EQ(between.segments()[1].range, (Range{9, 14}));
  const FlatLayout alone = layout_of({frozen}, 2, 8);
  EXPECT_EQ(alone.padded(), 16);
  EXPECT_TRUE(alone.segments().empty());
}

TEST(FlatLayout, MoreRanksThanElements) {
  const FlatLayout layout = layout_of({vector_of("a", 3)}, 8, 8);
  EXPECT_EQ(layout.padded(), 64);
  EXPECT_EQ(intersect(layout.segments()[0].range, layout.shard(0)).size(), 3);
  for (int r = 1; r < 8; ++r)
    EXPECT_TRUE(intersect(layout.segments()[0].range, layout.shard(r)).empty());
}

// P31: nothing is counted in 32 bits. 2^31 + 64 elements, and layers of 2^40.
TEST(FlatLayout, P31_MoreElementsThanFitIn32Bits) {
  const std::int64_t large = (std::int64_t{1} << 31) + 64, huge = std::int64_t{1} << 40;
  for (const std::int64_t n : {large, huge}) {
    const FlatLayout layout = layout_of({vector_of("a", n), vector_of("b", 5, true)}, 2, 2);
    EXPECT_EQ(layout.elements(), n + 5);
    EXPECT_EQ(layout.padded(), (n + 5 + 63) / 64 * 64);
    EXPECT_EQ(layout.shard(1).end, layout.padded());
    EXPECT_EQ(layout.offset(1), n);
    EXPECT_EQ(layout.segments()[0].range, (Range{0, n}));
    EXPECT_EQ(layout.segments()[1].range, (Range{n, n + 5}));
    const Range own = intersect(layout.segments()[1].range, layout.shard(1));
    EXPECT_EQ(own, (Range{n, n + 5}));
  }
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
