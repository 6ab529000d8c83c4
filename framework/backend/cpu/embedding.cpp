// Token embeddings and learned positions.
#include "framework/backend/cpu/cpu_kernels.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/vector.h"
#include "framework/backend/kernel_checks.h"
#include "framework/backend/row_positions.h"

namespace trireme {

namespace {

using vec::F32;
using vec::Reader;
using vec::Writer;

std::int64_t grain(std::int64_t columns) { return 1 + 8192 / (columns + 1); }

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

void CpuKernels::add_positions(const Tensor& table, const Positions& p, const Tensor& x) {
  kernel_checks::add_positions(table, p, x);
  refuse_f64("add_positions", table, x);
  const std::int64_t columns = x.columns();
  const RowPositions position_of(p);
  parallel_ranges(threads_, x.rows(), grain(columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const auto from = Reader(table).at(position_of(r) * columns);
      const auto to = Writer(x).at(r * columns);
      vec::each(0, columns, [&](std::int64_t c, auto n) {
        to.store(c, to.reader().load(c, n) + from.load(c, n), n);
      });
    }
  });
}

}  // namespace trireme
