#include <algorithm>
#include <charconv>
#include <string_view>

#include "framework/base/error.h"
#include "framework/data/samples.h"

namespace trireme {

namespace {

std::int64_t batch_number(std::string_view text, const std::string& list) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check(error == std::errc() && end == text.data() + text.size() && value >= 1,
        "data.skip = ", list, ": \"", text,
        "\" is not a batch number; use ranges like 100-200,350-360 (from 1)");
  return value;
}

}  // namespace

SkippedBatches::SkippedBatches(const std::string& list) {
  std::string_view rest = list;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, comma);
    check(comma + 1 != rest.size(), "data.skip = ", list, ": ends with a comma");
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const std::size_t dash = item.find('-');
    const std::int64_t first = batch_number(item.substr(0, dash), list);
    const std::int64_t last =
        dash == std::string_view::npos ? first : batch_number(item.substr(dash + 1), list);
    check(first <= last, "data.skip = ", list, ": ", first, " is after ", last);
    ranges_.push_back({first - 1, last - 1});
  }
  std::sort(ranges_.begin(), ranges_.end(),
            [](const Range& a, const Range& b) { return a.first < b.first; });
  for (std::size_t i = 1; i < ranges_.size(); ++i)
    check(ranges_[i].first > ranges_[i - 1].last, "data.skip = ", list, ": batch ",
          ranges_[i].first + 1, " is in two ranges");
}

std::int64_t SkippedBatches::batch_of(std::int64_t step) const {
  std::int64_t batch = step;
  for (const Range& range : ranges_) {
    if (batch < range.first) break;
    batch += range.last - range.first + 1;
  }
  return batch;
}

}  // namespace trireme
