#include "framework/backend/top_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "framework/backend/infer_kernels.h"
#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr std::size_t kBlock = 64;
constexpr float kNone = -std::numeric_limits<float>::infinity();

// The k largest so far, in order; columns come in ascending order.
class Best {
 public:
  explicit Best(std::int64_t k) : k_(static_cast<std::size_t>(k)) {}
  bool takes(float x) const { return size_ < k_ ? x == x : x > logits_[k_ - 1]; }
  void put(std::int32_t id, float x) {
    std::size_t at = size_ < k_ ? size_++ : k_ - 1;
    for (; at > 0 && logits_[at - 1] < x; --at) {
      logits_[at] = logits_[at - 1];
      ids_[at] = ids_[at - 1];
    }
    logits_[at] = x;
    ids_[at] = id;
  }
  std::size_t size() const { return size_; }
  float logit(std::size_t i) const { return logits_[i]; }
  std::int32_t id(std::size_t i) const { return ids_[i]; }

 private:
  std::size_t k_, size_ = 0;
  std::array<float, kMostTop> logits_{};
  std::array<std::int32_t, kMostTop> ids_{};
};

void put_sum(double sum, std::span<std::int32_t> two) {
  const auto bits = std::bit_cast<std::uint64_t>(sum);
  two[0] = static_cast<std::int32_t>(static_cast<std::uint32_t>(bits));
  two[1] = static_cast<std::int32_t>(static_cast<std::uint32_t>(bits >> 32));
}

double sum_in(std::span<const std::int32_t> two) {
  return std::bit_cast<double>(std::uint64_t{static_cast<std::uint32_t>(two[1])} << 32 |
                               static_cast<std::uint32_t>(two[0]));
}

double sum_of_exp(std::span<const float> x, float largest) {
  double sum = 0;
  for (const float v : x) sum += std::exp(static_cast<double>(v) - static_cast<double>(largest));
  return sum;
}

}  // namespace

// Lanes, because a single largest one is compared one by one.
LargestLogit largest_of(std::span<const float> x) {
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> most;
  most.fill(kNone);
  std::array<std::int32_t, kLanes> nan{};
  const auto see = [&](float v, std::size_t lane) {
    most[lane] = v > most[lane] ? v : most[lane];
    nan[lane] |= v != v;
  };
  std::size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) see(x[i + lane], lane);
  for (std::size_t lane = 0; i < x.size(); ++i, ++lane) see(x[i], lane);
  return {*std::max_element(most.begin(), most.end()),
          std::any_of(nan.begin(), nan.end(), [](std::int32_t found) { return found != 0; })};
}

void top_of_row(const TopRows& top, std::span<const float> row, std::span<std::int32_t> words) {
  const auto k = static_cast<std::size_t>(top.count);
  const std::span<const float> x = row.first(static_cast<std::size_t>(top.valid));
  Best best(top.count);
  bool nan = false;
  for (std::size_t at = 0; at < x.size(); at += kBlock) {
    const std::size_t end = std::min(x.size(), at + kBlock);
    const LargestLogit largest = largest_of(x.subspan(at, end - at));
    nan |= largest.nan;
    if (!best.takes(largest.value)) continue;
    for (std::size_t i = at; i < end; ++i)
      if (best.takes(x[i]))
        best.put(static_cast<std::int32_t>(top.first_column) + static_cast<std::int32_t>(i), x[i]);
  }
  for (std::size_t i = 0; i < k; ++i) {
    words[i] = i < best.size() ? best.id(i) : -1;
    words[k + i] = std::bit_cast<std::int32_t>(i < best.size() ? best.logit(i) : kNone);
  }
  const bool sums = top.sums && best.size() > 0 && best.logit(0) > kNone;
  double sum = sums ? sum_of_exp(x, best.logit(0)) : 0.0;
  if (nan) sum = std::numeric_limits<double>::quiet_NaN();
  put_sum(sum, words.subspan(2 * k));
}

TopLogits merged_top(const TopRows& top, std::span<const std::span<const std::int32_t>> parts) {
  const auto k = static_cast<std::size_t>(top.count);
  std::vector<std::pair<float, std::int32_t>> all;
  for (const auto& words : parts)
    for (std::size_t i = 0; i < k && words[i] >= 0; ++i)
      all.emplace_back(std::bit_cast<float>(words[k + i]), words[i]);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  if (all.size() > k) all.resize(k);
  TopLogits row;
  for (const auto& [logit, id] : all) {
    row.ids.push_back(id);
    row.logits.push_back(logit);
  }
  for (const auto& words : parts) {
    const double sum = sum_in(words.subspan(2 * k, 2));
    const bool counts = words[0] >= 0 || sum != sum;
    if (!counts) continue;
    const double below = static_cast<double>(std::bit_cast<float>(words[k])) -
                         static_cast<double>(row.logits.empty() ? 0.0F : row.logits[0]);
    row.sum += sum == 0 || below == 0 ? sum : sum * std::exp(below);
  }
  return row;
}

void put_top(const TopRows& top, const TopLogits& row, std::span<std::int32_t> words) {
  const auto k = static_cast<std::size_t>(top.count);
  for (std::size_t i = 0; i < k; ++i) {
    words[i] = i < row.ids.size() ? row.ids[i] : -1;
    words[k + i] = std::bit_cast<std::int32_t>(i < row.ids.size() ? row.logits[i] : kNone);
  }
  put_sum(row.sum, words.subspan(2 * k));
}

void InferKernels::top(const TopRows& top, const Tensor& logits, const Tensor& words) {
  infer_checks::top(top, logits, words);
  const auto columns = static_cast<std::size_t>(logits.columns()),
             each = static_cast<std::size_t>(top.words());
  std::vector<float> narrowed(logits.dtype() == DType::kF64 ? columns : 0);
  for (std::size_t r = 0; r < static_cast<std::size_t>(logits.rows()); ++r) {
    std::span<const float> row = narrowed;
    if (logits.dtype() == DType::kF64)
      std::copy_n(logits.as<double>() + r * columns, columns, narrowed.begin());
    else
      row = {logits.as<float>() + r * columns, columns};
    top_of_row(top, row, {words.as<std::int32_t>() + r * each, each});
  }
}

}  // namespace trireme
