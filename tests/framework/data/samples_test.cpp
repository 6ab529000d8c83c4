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

TEST_F(Samples, OfPlainTextEndAtTheEndOfTextToken) {
  const SampleSet set(counting(40), 0, 40,
                      {.sequence = 6, .shuffle = false, .vocabulary = 1000, .end_of_text = 9});
  ASSERT_TRUE(set.knows_documents());
  Ids starts;
  set.document_starts(0, 3, starts);  // token 9 ends a document: the next one begins with 10
  EXPECT_EQ(starts, (Ids{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 0, 0, 0, 0, 0, 0}));
  const SampleSet without(counting(40), 0, 40, {.sequence = 6, .vocabulary = 1000});
  EXPECT_FALSE(without.knows_documents());
  EXPECT_NE(sentence_of([&] { without.document_starts(0, 1, starts); }).find("no end-of-text"),
            std::string::npos);
}

TEST_F(Samples, OfMarkedDocumentsBeginWhereTheyDo) {
  const auto files = real_files();
  for (const bool masked : {false, true}) {
    TokenWriter writer(*files, folder_ / "d.h5", "bytes", 1000, TokensOf::kDocuments);
    int count = 0;
    for (const std::size_t length : {3, 1, 9, 4, 6}) {
      Ids ids(length);
      std::iota(ids.begin(), ids.end(), count);
      count += static_cast<int>(length);
      writer.add(ids, std::vector<std::uint8_t>(length, masked ? 0 : 1));
    }
    writer.finish(std::string(32, '0'), "five", 5);
    const auto tokens = TokenFile::open(*files, folder_ / "d.h5");
    EXPECT_EQ(tokens->header().masked, masked);
    EXPECT_EQ(tokens->trained(7), !masked);
    // An id that ends texts says nothing where documents are marked.
    const SampleSet set(tokens, 0, tokens->count(),
                        {.sequence = 7, .shuffle = false, .vocabulary = 1000, .end_of_text = 5});
    Ids starts;
    set.document_starts(0, 3, starts);
    EXPECT_EQ(starts, (Ids{0, 0, 0, 3, 4, 4, 4, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 3, 3, 3, 3}));
  }
}

// Before documents were marked.
TEST_F(Samples, OfAnOlderFileAreReadButNotCut) {
  const auto files = real_files();
  const std::string path = folder_ / "old.h5";
  {
    const auto file = files->open(path, OpenMode::kReadWrite);
    TokenHeader header{.vocabulary = 200,
                       .tokenizer = "bytes",
                       .text_hash = std::string(32, '0'),
                       .count = 16,
                       .width = 1,
                       .about = "old",
                       .documents = 2,
                       .trained = 3,
                       .masked = true};
    std::string ids(16, '\7'), mask("\x07\x00", 2);
    ContentHash hash;
    hash.update(ids.data(), 16);
    hash.update(mask.data(), 2);
    header.token_hash = hash.hex();
    const TokenRange range = write_token_header(*file, header);
    file->write(ids.data(), 16, range.begin);
    file->write(mask.data(), 2, range.mask_begin);
  }
  const auto tokens = TokenFile::open(*files, path);
  EXPECT_TRUE(tokens->trained(2));
  EXPECT_FALSE(tokens->trained(3));
  const SampleSet set(tokens, 0, 16, {.sequence = 4, .vocabulary = 200, .end_of_text = 7});
  Ids ids, labels, starts;
  set.fill(0, 1, ids, labels);
  EXPECT_FALSE(set.knows_documents());
  EXPECT_NE(sentence_of([&] { set.document_starts(0, 1, starts); }).find("make it again"),
            std::string::npos);
}

TEST_F(Samples, WhatCannotBeIsRefused) {
  const auto refusal = [&](std::int64_t count, const SampleOptions& options) {
    return sentence_of([&] { TokenDataset(counting(count), options); });
  };
  const std::string path = folder_ / "t.h5";
  EXPECT_EQ(refusal(5, {.sequence = 5, .vocabulary = 1000}),
            "token file " + path +
                " has 5 tokens for training, but batch.sequence = 5 needs at least 6; use "
                "batch.sequence = 4 or less, or more text");
  EXPECT_EQ(refusal(100, {.sequence = 10, .validation = 0.1, .vocabulary = 1000}),
            "token file " + path +
                " has 10 tokens for validation (data.validation = 0.1 of 100), but batch.sequence "
                "= 10 needs at least 11; use data.validation = 0 to hold nothing out, a larger "
                "part, or batch.sequence = 9 or less");
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
