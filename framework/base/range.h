// A half-open range of elements of something flat.
#pragma once

#include <algorithm>
#include <cstdint>

namespace trireme {

struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end > begin ? end - begin : 0; }
  bool empty() const { return size() == 0; }
  bool operator==(const Range&) const = default;
};

inline Range intersect(Range a, Range b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

}  // namespace trireme
