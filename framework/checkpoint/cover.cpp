#include "framework/checkpoint/cover.h"

#include <algorithm>
#include <set>

namespace trireme {

namespace {

struct Span {
  std::int64_t column = 0, columns = 0, last_row = 0;  // last_row: one past
  bool operator<(const Span& other) const { return column < other.column; }
};
using Active = std::multiset<Span>;

// Walks along one row. Missing elements count only if `columns` is not negative.
std::optional<CoverFault> fault_in_row(std::int64_t row, std::int64_t columns,
                                       const Active& active) {
  std::int64_t covered = 0;
  for (const Span& span : active) {
    if (columns >= 0 && span.column > covered) return CoverFault{row, covered, false};
    if (span.column < covered) return CoverFault{row, span.column, true};
    covered = span.column + span.columns;
  }
  if (columns >= 0 && covered < columns) return CoverFault{row, covered, false};
  return std::nullopt;
}

// `rows`, `columns` < 0: only overlaps count.
std::optional<CoverFault> sweep(std::int64_t rows, std::int64_t columns,
                                std::vector<Rectangle>& rectangles) {
  std::erase_if(rectangles, [](const Rectangle& r) { return r.rows == 0 || r.columns == 0; });
  std::sort(rectangles.begin(), rectangles.end(),
            [](const Rectangle& a, const Rectangle& b) { return a.row < b.row; });
  std::vector<std::int64_t> stops = {0};
  for (const Rectangle& r : rectangles) {
    stops.push_back(r.row);
    stops.push_back(r.row + r.rows);
  }
  std::sort(stops.begin(), stops.end());
  stops.erase(std::unique(stops.begin(), stops.end()), stops.end());
  Active active;
  std::size_t next = 0;
  for (const std::int64_t row : stops) {
    std::erase_if(active, [row](const Span& span) { return span.last_row <= row; });
    for (; next < rectangles.size() && rectangles[next].row == row; ++next) {
      const Rectangle& r = rectangles[next];
      active.insert({r.column, r.columns, r.row + r.rows});
    }
    if (rows >= 0 && row >= rows) break;
    if (const auto fault = fault_in_row(row, columns, active)) return fault;
  }
  return std::nullopt;
}

}  // namespace

std::optional<CoverFault> cover_fault(std::int64_t rows, std::int64_t columns,
                                      std::vector<Rectangle> rectangles) {
  if (rows == 0 || columns == 0) return std::nullopt;
  return sweep(rows, columns, rectangles);
}

std::optional<CoverFault> overlap(std::vector<Rectangle> rectangles) {
  return sweep(-1, -1, rectangles);
}

}  // namespace trireme
