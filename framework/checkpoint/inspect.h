// What `trireme checkpoint inspect` and `diff` tell. Everything is streamed: memory stays at a few
// MiB however large a tensor is.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/checkpoint/checkpoint_reader.h"

namespace trireme {

struct ArraySummary {
  LogicalArray array;
  double norm = 0;  // root of the sum of squares, summed in f64 row by row, without NaNs
  double smallest = 0, largest = 0;  // without NaNs; 0 if nothing else is in it
  std::int64_t nans = 0;
  std::int64_t infinities = 0;
};
// The same of values that come part by part.
class ValueSums {
 public:
  void add(std::span<const double> values);
  void tell(ArraySummary& summary) const;

 private:
  double squares_ = 0, smallest_ = 0, largest_ = 0;
  std::int64_t nans_ = 0, infinities_ = 0;
  bool any_ = false;
};
// By name. Error at the first damaged block.
std::vector<ArraySummary> inspect(const CheckpointReader& reader);

struct ArrayDifference {
  ArrayName name;
  bool in_first = true, in_second = true;
  // Of those that have it.
  LogicalArray first, second;
  // Compared, as f64, if both have it in one shape (types may differ).
  bool compared = false;
  std::int64_t differing = 0;        // elements with other bits; a NaN equals a NaN
  double largest = 0;                // |first - second|; infinite if just one is NaN
  std::int64_t row = 0, column = 0;  // of the largest
};

struct CheckpointDifference {
  std::vector<ArrayDifference> arrays;  // only those that differ in anything
  // By name: what both say, "" for one that lacks it.
  std::map<std::string, std::pair<std::string, std::string>> scalars;
  bool none() const { return arrays.empty() && scalars.empty(); }
};
CheckpointDifference difference(const CheckpointReader& first, const CheckpointReader& second);

// The same arrays, shapes, types and bits?
bool equal_arrays(const CheckpointReader& first, const CheckpointReader& second);

}  // namespace trireme
