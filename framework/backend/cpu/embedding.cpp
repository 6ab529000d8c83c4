// Token embeddings and learned positions. Gradients are summed in f32 per table row, in row order
// of dy, and rounded once.
#include <algorithm>
#include <numeric>
#include <vector>

#include "framework/backend/cpu/cpu_kernels.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/vector.h"
#include "framework/backend/kernel_checks.h"

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

}  // namespace

void CpuKernels::embedding(const Tensor& ids, const Tensor& table, std::int64_t first_row,
                           const Tensor& out) {
  kernel_checks::embedding(ids, table, out);
  refuse_f64("embedding", table, out);
  const std::int64_t columns = out.columns(), rows = table.rows();
  const auto* id = ids.as<std::int32_t>();
  parallel_ranges(threads_, ids.elements(), grain(columns),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t r = begin; r < end; ++r) {
                      const std::int64_t row = id[r] - first_row;
                      const bool inside = row >= 0 && row < rows;
                      const auto from = Reader(table).at(inside ? row * columns : 0);
                      const auto to = Writer(out).at(r * columns);
                      vec::each(0, columns, [&](std::int64_t c, auto n) {
                        to.store(c, inside ? from.load(c, n) : F32{}, n);
                      });
                    }
                  });
}

void CpuKernels::embedding_backward(const Tensor& ids, const Tensor& dy, std::int64_t first_row,
                                    const Tensor& dtable, bool accumulate) {
  kernel_checks::embedding_backward(ids, dy, dtable);
  refuse_f64("embedding_backward", dy, dtable);
  if (!accumulate) fill(dtable, 0.0);
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

void CpuKernels::add_positions(const Tensor& table, std::int64_t tokens, std::int64_t first_row,
                               std::int64_t first_position, const Tensor& x) {
  kernel_checks::add_positions(table, tokens, first_row, first_position, x);
  refuse_f64("add_positions", table, x);
  const std::int64_t columns = x.columns();
  parallel_ranges(threads_, x.rows(), grain(columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t position = (first_row + r) % tokens + first_position;
      const auto from = Reader(table).at(position * columns);
      const auto to = Writer(x).at(r * columns);
      vec::each(0, columns, [&](std::int64_t c, auto n) {
        to.store(c, to.reader().load(c, n) + from.load(c, n), n);
      });
    }
  });
}

void CpuKernels::add_positions_backward(const Tensor& dy, std::int64_t tokens,
                                        std::int64_t first_row, std::int64_t first_position,
                                        const Tensor& dtable, bool accumulate) {
  kernel_checks::add_positions_backward(dy, tokens, first_row, first_position, dtable);
  refuse_f64("add_positions_backward", dy, dtable);
  const std::int64_t columns = dtable.columns(), rows = dy.rows();
  parallel_ranges(
      threads_, dtable.rows(), grain(columns), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t p = begin; p < end; ++p) {
          const std::int64_t token = p - first_position;
          const bool used = token >= 0 && token < tokens;
          // The first row of dy at this position; the others follow `tokens` apart.
          const std::int64_t first = used ? (token - first_row % tokens + tokens) % tokens : rows;
          if (accumulate && first >= rows) continue;
          const auto to = Writer(dtable).at(p * columns);
          vec::each(0, columns, [&](std::int64_t c, auto n) {
            F32 total = accumulate ? to.reader().load(c, n) : F32{};
            for (std::int64_t r = first; r < rows; r += tokens)
              total += Reader(dy).load(r * columns + c, n);
            to.store(c, total, n);
          });
        }
      });
}

}  // namespace trireme
