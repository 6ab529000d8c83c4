#include "framework/checkpoint/inspect.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

namespace trireme {

namespace {

constexpr std::int64_t kElements = std::int64_t{1} << 18;  // 2 MiB of f64

// Cuts an array into rectangles of at most kElements, in row-major order of their first elements.
void for_each_part(const LogicalArray& array, const std::function<void(const Rectangle&)>& call) {
  const std::int64_t width = std::min(array.columns(), kElements);
  if (array.rows() == 0 || width == 0) return;
  const std::int64_t height = std::max<std::int64_t>(1, kElements / width);
  for (std::int64_t row = 0; row < array.rows(); row += height)
    for (std::int64_t column = 0; column < array.columns(); column += width)
      call({row, column, std::min(height, array.rows() - row),
            std::min(width, array.columns() - column)});
}

ArraySummary summarize(const CheckpointReader& reader, const LogicalArray& array,
                       std::vector<double>& values) {
  ArraySummary summary;
  summary.array = array;
  ValueSums sums;
  for_each_part(array, [&](const Rectangle& part) {
    reader.read(array.name, part, DType::kF64, values.data());
    sums.add({values.data(), static_cast<std::size_t>(part.elements())});
  });
  sums.tell(summary);
  return summary;
}

bool same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

double distance(double a, double b) {
  const double d = std::fabs(a - b);
  return std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
}

// Two buffers, used again for every array.
struct Buffers {
  std::vector<double> a = std::vector<double>(static_cast<std::size_t>(kElements));
  std::vector<double> b = a;
};

void compare(const CheckpointReader& first, const CheckpointReader& second,
             ArrayDifference& difference, Buffers& buffers) {
  difference.compared = true;
  for_each_part(difference.first, [&](const Rectangle& part) {
    first.read(difference.name, part, DType::kF64, buffers.a.data());
    second.read(difference.name, part, DType::kF64, buffers.b.data());
    for (std::int64_t i = 0; i < part.elements(); ++i) {
      const double a = buffers.a[static_cast<std::size_t>(i)];
      const double b = buffers.b[static_cast<std::size_t>(i)];
      if (same(a, b)) continue;
      const double d = distance(a, b);
      if (difference.differing++ == 0 || d > difference.largest) {
        difference.largest = d;
        difference.row = part.row + i / part.columns;
        difference.column = part.column + i % part.columns;
      }
    }
  });
}

std::map<ArrayName, LogicalArray> by_name(const CheckpointReader& reader) {
  std::map<ArrayName, LogicalArray> all;
  for (const LogicalArray& array : reader.arrays()) all[array.name] = array;
  return all;
}

using Scalars = std::map<std::string, std::string>;

std::string value_or_empty(const Scalars& scalars, const std::string& key) {
  const auto found = scalars.find(key);
  return found == scalars.end() ? "" : found->second;
}

}  // namespace

void ValueSums::add(std::span<const double> values) {
  for (const double x : values) {
    if (std::isnan(x)) {
      ++nans_;
      continue;
    }
    infinities_ += std::isinf(x) ? 1 : 0;
    squares_ += x * x;
    smallest_ = any_ ? std::min(smallest_, x) : x;
    largest_ = any_ ? std::max(largest_, x) : x;
    any_ = true;
  }
}

void ValueSums::tell(ArraySummary& summary) const {
  summary.norm = std::sqrt(squares_);
  summary.smallest = smallest_;
  summary.largest = largest_;
  summary.nans = nans_;
  summary.infinities = infinities_;
}

std::vector<ArraySummary> inspect(const CheckpointReader& reader) {
  std::vector<double> values(static_cast<std::size_t>(kElements));
  std::vector<ArraySummary> all;
  for (const LogicalArray& array : reader.arrays()) all.push_back(summarize(reader, array, values));
  return all;
}

CheckpointDifference difference(const CheckpointReader& first, const CheckpointReader& second) {
  CheckpointDifference all;
  Buffers buffers;
  const auto a = by_name(first), b = by_name(second);
  std::set<ArrayName> names;
  for (const auto& [name, array] : a) names.insert(name);
  for (const auto& [name, array] : b) names.insert(name);
  for (const ArrayName& name : names) {
    ArrayDifference one;
    one.name = name;
    one.in_first = a.contains(name);
    one.in_second = b.contains(name);
    if (one.in_first) one.first = a.at(name);
    if (one.in_second) one.second = b.at(name);
    const bool both = one.in_first && one.in_second;
    if (both && one.first.shape == one.second.shape) compare(first, second, one, buffers);
    if (!both || !(one.first == one.second) || one.differing > 0) all.arrays.push_back(one);
  }
  const Scalars& left = first.manifest().scalars;
  const Scalars& right = second.manifest().scalars;
  for (const Scalars* side : {&left, &right})
    for (const auto& [key, value] : *side)
      if (value_or_empty(left, key) != value_or_empty(right, key))
        all.scalars[key] = {value_or_empty(left, key), value_or_empty(right, key)};
  return all;
}

bool equal_arrays(const CheckpointReader& first, const CheckpointReader& second) {
  return difference(first, second).arrays.empty();
}

}  // namespace trireme
