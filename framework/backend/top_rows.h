// The likeliest ids of rows of logits: what greedy choice and top_k need, so that tensor ranks hand
// on a few pairs of a row instead of all of it.
//
// A row's answer is a record of 2k + 2 words (i32), so that it travels as one tensor: k ids,
// likeliest first and the lowest id first of equals, -1 where the part has fewer; the bits of their
// k logits in f32; and the two halves of a double, the sum of exp(logit - largest) over the part
// (0 if not asked for). A row with a NaN has the sum NaN, asked for or not.
//
// Exact: the merged record of all parts has the k likeliest of the whole row. The sum of several
// parts is rounded otherwise than that of one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/base/tensor.h"

namespace trireme {

inline constexpr std::int64_t kMostTop = 64;

struct TopRows {
  std::int64_t count = 1;         // k, 1 to kMostTop
  std::int64_t first_column = 0;  // id of a part's first column
  std::int64_t valid = 0;         // columns that count; what is behind them is padding
  bool sums = false;
  std::int64_t words() const { return 2 * count + 2; }
};

// The largest of some logits. NaN is not the largest, but told.
struct LargestLogit {
  float value = 0;  // -infinity of none
  bool nan = false;
};
LargestLogit largest_of(std::span<const float> logits);

// One row's record, from a part of its logits.
void top_of_row(const TopRows& top, std::span<const float> row, std::span<std::int32_t> words);

// A whole row's, as its reader wants it.
struct TopLogits {
  std::vector<std::int32_t> ids;  // at most k
  std::vector<float> logits;
  double sum = 0;
};
// From the records of all parts of a row, in order of the parts.
TopLogits merged_top(const TopRows& top, std::span<const std::span<const std::int32_t>> parts);
// As one record again, of the merged row.
void put_top(const TopRows& top, const TopLogits& row, std::span<std::int32_t> words);

}  // namespace trireme
