// Gradients of tables of tokens and positions, summed in f32 per table row, in row order of dy, and
// rounded once.
#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/train/cpu_train_kernels.h"
#include "framework/backend/cpu/vector.h"
#include "framework/backend/kernel_checks.h"
#include "framework/backend/row_positions.h"

namespace trireme {

namespace {

using vec::F32;
using vec::Reader;
using vec::Writer;

std::int64_t grain(std::int64_t columns) { return 1 + 8192 / (columns + 1); }

// The rows of dy that fall into the table, grouped by table row, in ascending order within each.
std::vector<std::int64_t> rows_by_id(const Tensor& ids, std::int64_t first_row, std::int64_t rows) {
  const auto* id = ids.as<std::int32_t>();
  std::vector<std::int64_t> order;
  order.reserve(static_cast<std::size_t>(ids.elements()));
  for (std::int64_t r = 0; r < ids.elements(); ++r)
    if (id[r] >= first_row && id[r] - first_row < rows) order.push_back(r);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return id[a] < id[b]; });
  return order;
}

// The rows at each position, in ascending order.
class RowLists {
 public:
  RowLists(const Positions& p, std::int64_t rows, std::int64_t positions)
      : begin_(static_cast<std::size_t>(positions + 1)), rows_(static_cast<std::size_t>(rows)) {
    const RowPositions position_of(p);
    for (std::int64_t r = 0; r < rows; ++r) ++begin_[place(position_of(r)) + 1];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
    for (std::int64_t r = 0; r < rows; ++r) rows_[next[place(position_of(r))]++] = r;
  }
  std::span<const std::int64_t> at(std::int64_t position) const {
    const std::size_t begin = begin_[place(position)];
    return std::span(rows_).subspan(begin, begin_[place(position) + 1] - begin);
  }

 private:
  static std::size_t place(std::int64_t position) { return static_cast<std::size_t>(position); }
  std::vector<std::size_t> begin_;
  std::vector<std::int64_t> rows_;
};

}  // namespace

void CpuTrainKernels::embedding_backward(const Tensor& ids, const Tensor& dy,
                                         std::int64_t first_row, const Tensor& dtable,
                                         bool accumulate) {
  kernel_checks::embedding_backward(ids, dy, dtable);
  refuse_f64("embedding_backward", dy, dtable);
  if (!accumulate) forward_.fill(dtable, 0.0);
  const std::int64_t columns = dtable.columns();
  const auto* id = ids.as<std::int32_t>();
  const auto order = rows_by_id(ids, first_row, dtable.rows());
  const Reader from(dy);
  const Writer to(dtable);
  // Threads split columns: every table row has one writer.
  parallel_ranges(threads_, columns, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::size_t i = 0, next = 0; i < order.size(); i = next) {
      while (next < order.size() && id[order[next]] == id[order[i]]) ++next;
      const std::int64_t row = (id[order[i]] - first_row) * columns;
      vec::each(begin, end, [&](std::int64_t c, auto n) {
        F32 total = to.reader().load(row + c, n);
        for (std::size_t j = i; j < next; ++j) total += from.load(order[j] * columns + c, n);
        to.store(row + c, total, n);
      });
    }
  });
}

void CpuTrainKernels::add_positions_backward(const Tensor& dy, const Positions& p,
                                             const Tensor& dtable, bool accumulate) {
  kernel_checks::add_positions_backward(dy, p, dtable);
  refuse_f64("add_positions_backward", dy, dtable);
  const std::int64_t columns = dtable.columns();
  const RowLists rows(p, dy.rows(), dtable.rows());
  parallel_ranges(threads_, dtable.rows(), grain(columns),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t at = begin; at < end; ++at) {
                      const auto of = rows.at(at);
                      if (accumulate && of.empty()) continue;
                      const auto to = Writer(dtable).at(at * columns);
                      vec::each(0, columns, [&](std::int64_t c, auto n) {
                        F32 total = accumulate ? to.reader().load(c, n) : F32{};
                        for (const std::int64_t r : of)
                          total += Reader(dy).load(r * columns + c, n);
                        to.store(c, total, n);
                      });
                    }
                  });
}

}  // namespace trireme
