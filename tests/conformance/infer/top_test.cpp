// The likeliest ids of rows, on every backend: in parts as tensor ranks have them, against all of
// the row sorted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "framework/backend/host_values.h"
#include "framework/backend/infer_kernels.h"
#include "framework/backend/top_rows.h"
#include "framework/base/error.h"
#include "framework/base/random.h"
#include "tests/support/guarded_backend.h"

namespace trireme::test {
namespace {

constexpr std::int64_t kRows = 3, kVocab = 211, kColumns = 216;  // 5 of padding

// Few values, so that there are many equal ones; the padding is larger than all.
std::vector<float> logits_of(std::int64_t row, std::uint64_t seed) {
  std::vector<float> x(kColumns, 1e9F);
  const RngKey key = key_from_seed(seed).child("top").child(static_cast<std::uint64_t>(row));
  for (std::size_t i = 0; i < kVocab; ++i)
    x[i] = std::floor(8 * static_cast<float>(random_normal(key, i))) / 4;
  return x;
}

TopLogits sorted(std::span<const float> x, std::int64_t count) {
  std::vector<std::int32_t> order(kVocab);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return x[static_cast<std::size_t>(a)] > x[static_cast<std::size_t>(b)];
  });
  TopLogits row;
  for (std::int64_t i = 0; i < std::min(count, kVocab); ++i) {
    row.ids.push_back(order[static_cast<std::size_t>(i)]);
    row.logits.push_back(x[static_cast<std::size_t>(row.ids.back())]);
  }
  for (std::int64_t i = 0; i < kVocab; ++i)
    row.sum += std::exp(static_cast<double>(x[static_cast<std::size_t>(i)]) - row.logits[0]);
  return row;
}

std::vector<std::unique_ptr<Backend>> backends() {
  std::vector<std::unique_ptr<Backend>> all;
  all.push_back(make_guarded_backend(std::make_shared<MemoryLedger>()));
  try {
    all.push_back(make_cpu_backend(std::make_shared<MemoryLedger>(), 2));
  } catch (const Error&) {  // a build without it
  }
  return all;
}

// The records of parts of (kRows, kColumns / parts), merged.
std::vector<TopLogits> top_of(Backend& b, const std::vector<std::vector<float>>& rows,
                              std::int64_t count, std::int64_t parts, DType type, bool sums) {
  const std::int64_t columns = kColumns / parts;
  std::vector<std::vector<std::int32_t>> words;
  TopRows top{.count = count, .sums = sums};
  for (std::int64_t part = 0; part < parts; ++part) {
    std::vector<double> local;
    for (const auto& row : rows)
      local.insert(local.end(), row.begin() + part * columns, row.begin() + (part + 1) * columns);
    const Tensor x = b.allocate({kRows, columns}, type, MemoryKind::kActivations);
    upload_doubles(b, local, x);
    top.first_column = part * columns;
    top.valid = std::clamp<std::int64_t>(kVocab - top.first_column, 0, columns);
    const Tensor record = b.allocate({kRows, top.words()}, DType::kI32, MemoryKind::kActivations);
    b.infer_kernels()->top(top, x, record);
    b.download(record, words.emplace_back(static_cast<std::size_t>(record.elements())).data());
  }
  std::vector<TopLogits> merged;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto each = static_cast<std::size_t>(top.words());
    std::vector<std::span<const std::int32_t>> of_row;
    for (const auto& part : words) of_row.push_back(std::span(part).subspan(r * each, each));
    merged.push_back(merged_top(top, of_row));
  }
  return merged;
}

TEST(TopRows, AreThoseOfTheSortedRowInAnyNumberOfParts) {
  for (const auto& b : backends())
    for (const DType type : {DType::kF32, DType::kF64})
      for (const std::int64_t count : {1, 2, 5, 40, 64})
        for (const std::int64_t parts : {1, 2, 3, 4}) {
          if (!b->computes(type)) continue;
          std::vector<std::vector<float>> rows;
          for (std::int64_t r = 0; r < kRows; ++r)
            rows.push_back(logits_of(r, static_cast<std::uint64_t>(count)));
          const auto got = top_of(*b, rows, count, parts, type, true);
          for (std::size_t r = 0; r < rows.size(); ++r) {
            const TopLogits expected = sorted(rows[r], count);
            EXPECT_EQ(got[r].ids, expected.ids) << b->name() << " " << count << " of " << parts;
            EXPECT_EQ(got[r].logits, expected.logits);
            if (parts == 1)
              EXPECT_EQ(got[r].sum, expected.sum);
            else
              EXPECT_NEAR(got[r].sum, expected.sum, 1e-13 * expected.sum);
          }
        }
}

TEST(TopRows, TellOfNumbersThatAreNone) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto backend = make_guarded_backend(std::make_shared<MemoryLedger>());
  std::vector<std::vector<float>> rows{logits_of(0, 1), logits_of(1, 1), logits_of(2, 1)};
  rows[0][200] = std::numeric_limits<float>::quiet_NaN();
  std::fill(rows[1].begin(), rows[1].begin() + kColumns / 2, -kInfinity);  // a whole part
  rows[2][7] = kInfinity;
  for (const bool sums : {false, true}) {
    const auto got = top_of(*backend, rows, 3, 2, DType::kF32, sums);
    EXPECT_TRUE(std::isnan(got[0].sum));
    EXPECT_EQ(got[1].ids, sorted(rows[1], 3).ids);
    EXPECT_FALSE(std::isnan(got[1].sum));
    EXPECT_EQ(got[2].logits[0], kInfinity);
  }
}

TEST(TopRows, ARecordOfTheMergedRowSaysTheSame) {
  const TopRows top{.count = 4, .valid = kVocab, .sums = true};
  std::vector<std::int32_t> words(static_cast<std::size_t>(top.words())), again(words.size());
  const std::vector<float> row = logits_of(0, 3);
  top_of_row(top, row, words);
  const std::span<const std::int32_t> part = words;
  put_top(top, merged_top(top, std::span(&part, 1)), again);
  EXPECT_EQ(again, words);
}

TEST(TopRows, RefuseWhatDoesNotFit) {
  const auto b = make_guarded_backend(std::make_shared<MemoryLedger>());
  const Tensor x = b->zeros({1, 8}, DType::kF32, MemoryKind::kActivations);
  const Tensor words = b->zeros({1, 4}, DType::kI32, MemoryKind::kActivations);
  for (const TopRows& top : {TopRows{.count = 0, .valid = 8}, TopRows{.count = 65, .valid = 8},
                             TopRows{.count = 1, .valid = 9}, TopRows{.count = 2, .valid = 8}})
    EXPECT_THROW(b->infer_kernels()->top(top, x, words), Error);
}

}  // namespace
}  // namespace trireme::test
