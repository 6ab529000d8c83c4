#include "framework/data/samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "framework/data/permutation.h"
#include "framework/data/text_tokens.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

using testing::sentence_of;
using testing::TemporaryFolder;
using Ids = std::vector<std::int32_t>;

TEST(Permutation, IsABijectionOfEverySize) {
  for (std::int64_t size = 1; size <= 300; ++size) {
    const Permutation permutation(key_from_seed(7), size);
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < size; ++i) seen.insert(permutation(i));
    ASSERT_EQ(static_cast<std::int64_t>(seen.size()), size);
    ASSERT_EQ(*seen.begin(), 0);
    ASSERT_EQ(*seen.rbegin(), size - 1);
  }
}

TEST(Permutation, DependsOnTheKeyAndMovesThings) {
  constexpr std::int64_t kSize = 1000;
  const Permutation a(key_from_seed(1), kSize);
  const Permutation b(key_from_seed(2), kSize);
  int same = 0;
  int fixed = 0;
  int neighbours = 0;
  for (std::int64_t i = 0; i < kSize; ++i) {
    same += a(i) == b(i);
    fixed += a(i) == i;
    if (i > 0) neighbours += std::abs(a(i) - a(i - 1)) == 1;
  }
  EXPECT_LT(same, 10);  // 1 is expected
  EXPECT_LT(fixed, 10);
  EXPECT_LT(neighbours, 15);  // 2 are expected
  EXPECT_LT(Permutation(key_from_seed(1), std::int64_t{1} << 62)(12345), std::int64_t{1} << 62);
  EXPECT_NE(sentence_of([&] { a(kSize); }), "");
  EXPECT_NE(sentence_of([&] { Permutation(key_from_seed(1), 0); }), "");
}

// Tokens 0, 1, 2, ...: a sample shows where it comes from.
class Samples : public ::testing::Test {
 protected:
  std::shared_ptr<const TokenFile> counting(std::int64_t count) {
    const auto files = real_files();
    Ids ids(static_cast<std::size_t>(count));
    std::iota(ids.begin(), ids.end(), 0);
    TokenWriter writer(*files, folder_ / "t.h5", "bytes", 1000);
    writer.add(ids);
    writer.finish(std::string(32, '0'));
    return TokenFile::open(*files, folder_ / "t.h5");
  }
  TemporaryFolder folder_;
};

TEST_F(Samples, InOrderTheyAreTheText) {
  const TokenDataset data(counting(23), {.sequence = 5, .shuffle = false, .vocabulary = 1000});
  EXPECT_EQ(data.train().size(), 4);
  EXPECT_EQ(data.validation(), nullptr);
  Ids ids;
  Ids labels;
  data.train().fill(3, 2, ids, labels);  // the last window, and the first of the next epoch
  EXPECT_EQ(ids, (Ids{15, 16, 17, 18, 19, 0, 1, 2, 3, 4}));
  EXPECT_EQ(labels, (Ids{16, 17, 18, 19, 20, 1, 2, 3, 4, 5}));
}

TEST_F(Samples, AClassifierHasOneLabel) {
  const TokenDataset data(
      counting(23),
      {.sequence = 5, .shuffle = false, .vocabulary = 1000, .labels = LabelKind::kNextOfLast});
  Ids ids;
  Ids labels;
  data.train().fill(0, 2, ids, labels);
  EXPECT_EQ(ids, (Ids{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(labels, (Ids{5, 10}));
}

TEST_F(Samples, TheLastLabelNeedsATokenMore) {
  const auto windows = [&](std::int64_t count) {
    return TokenDataset(counting(count), {.sequence = 5, .vocabulary = 1000}).train().size();
  };
  EXPECT_EQ(windows(6), 1);
  EXPECT_EQ(windows(10), 1);
  EXPECT_EQ(windows(11), 2);
}

TEST_F(Samples, EachEpochHasEveryWindowOnceInItsOwnOrder) {
  const TokenDataset data(counting(501), {.sequence = 5, .seed = 3, .vocabulary = 1000});
  const std::int64_t n = data.train().size();
  ASSERT_EQ(n, 100);
  std::vector<std::vector<std::int64_t>> epochs(3);
  for (std::int64_t s = 0; s < 3 * n; ++s)
    epochs[static_cast<std::size_t>(s / n)].push_back(data.train().first_token(s));
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  for (auto& epoch : epochs) {
    std::sort(epoch.begin(), epoch.end());
    for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(epoch[static_cast<std::size_t>(i)], 5 * i);
  }
  const TokenDataset other(counting(501), {.sequence = 5, .seed = 4, .vocabulary = 1000});
  int same = 0;
  for (std::int64_t s = 0; s < n; ++s)
    same += data.train().first_token(s) == other.train().first_token(s);
  EXPECT_LT(same, 10);
}

TEST_F(Samples, AreTheSameWhateverTheNumberOfRanks) {
  const TokenDataset data(counting(901), {.sequence = 5, .seed = 3, .vocabulary = 1000});
  constexpr std::int64_t kGlobal = 12;
  for (std::int64_t step = 0; step < 40; ++step) {  // past the end of the first epoch
    Ids whole;
    Ids whole_labels;
    data.train().fill(step * kGlobal, kGlobal, whole, whole_labels);
    for (const std::int64_t ranks : {2, 3, 4, 6}) {
      Ids joined;
      Ids joined_labels;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const std::int64_t share = kGlobal / ranks;
        Ids ids;
        Ids labels;
        data.train().fill(step * kGlobal + rank * share, share, ids, labels);
        joined.insert(joined.end(), ids.begin(), ids.end());
        joined_labels.insert(joined_labels.end(), labels.begin(), labels.end());
      }
      ASSERT_EQ(joined, whole);
      ASSERT_EQ(joined_labels, whole_labels);
    }
  }
}

TEST_F(Samples, ValidationIsTheTailInOrderAndSharesNothing) {
  const TokenDataset data(counting(1000),
                          {.sequence = 7, .validation = 0.1, .seed = 1, .vocabulary = 1000});
  ASSERT_NE(data.validation(), nullptr);
  EXPECT_EQ(data.train().end(), 900);
  EXPECT_EQ(data.validation()->begin(), 900);
  EXPECT_EQ(data.validation()->end(), 1000);
  Ids ids;
  Ids labels;
  data.train().fill(0, data.train().size(), ids, labels);
  EXPECT_LT(*std::max_element(labels.begin(), labels.end()), 900);
  data.validation()->fill(0, data.validation()->size(), ids, labels);
  EXPECT_EQ(data.validation()->size(), 14);
  EXPECT_EQ(ids.front(), 900);
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
}

TEST_F(Samples, WhatCannotBeIsRefused) {
  const auto refusal = [&](std::int64_t count, const SampleOptions& options) {
    return sentence_of([&] { TokenDataset(counting(count), options); });
  };
  const std::string path = folder_ / "t.h5";
  EXPECT_EQ(
      refusal(5, {.sequence = 5, .vocabulary = 1000}),
      "token file " + path + " has 5 tokens for training, but batch.sequence = 5 needs at least 6");
  EXPECT_NE(refusal(100, {.sequence = 10, .validation = 0.1, .vocabulary = 1000})
                .find("10 tokens for validation (data.validation = 0.1 of 100)"),
            std::string::npos);
  EXPECT_NE(refusal(100, {.sequence = 0, .vocabulary = 1000}).find("batch.sequence = 0"),
            std::string::npos);
  EXPECT_NE(refusal(100, {.sequence = 5, .validation = 1.0, .vocabulary = 1000})
                .find("data.validation = 1"),
            std::string::npos);
  EXPECT_NE(refusal(100, {.sequence = 5, .vocabulary = 256}).find("model.vocab = 256"),
            std::string::npos);
}

TEST(SkippedBatches, LeaveOutExactlyTheirRanges) {
  const SkippedBatches skip("3-5,2,9");
  std::vector<std::int64_t> batches;
  for (std::int64_t step = 0; step < 6; ++step) batches.push_back(skip.batch_of(step));
  EXPECT_EQ(batches, (std::vector<std::int64_t>{0, 5, 6, 7, 9, 10}));
  EXPECT_EQ(SkippedBatches("").batch_of(17), 17);
  for (const std::string wrong :
       {"0", "a", "5-3", "1-", "-2", "1-4,4", "1,,2", "1,", "1 ", "99999999999999999999"})
    EXPECT_NE(sentence_of([&] { SkippedBatches skipped(wrong); }).find("data.skip = " + wrong),
              std::string::npos)
        << wrong;
}

}  // namespace
}  // namespace trireme
