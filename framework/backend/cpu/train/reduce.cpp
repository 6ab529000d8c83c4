// Sums over rows and whole buffers. All in an order fixed by the extents alone.
#include <atomic>
#include <vector>

#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/train/cpu_train_kernels.h"
#include "framework/backend/cpu/vector.h"
#include "framework/backend/fingerprint.h"
#include "framework/backend/kernel_checks.h"

namespace trireme {

namespace {

using vec::F32;
using vec::F64;
using vec::Reader;
using vec::Writer;

constexpr std::int64_t kGrain = 16384;
constexpr std::int64_t kBlock = 65536;  // elements per partial sum of squares

struct Squares {
  double bad = 0.0, sum = 0.0;
};

Squares squares_of(Reader x, std::int64_t begin, std::int64_t end) {
  constexpr int kHalf = vec::kLanes / 2;
  F64 low{}, high{};
  F32 bad{};  // at most kBlock / kLanes a lane: exact
  const F32 infinity = vec::from_bits(vec::U32{} + 0x7f800000u);
  vec::each(begin, end, [&](std::int64_t i, auto n) {
    const F32 v = x.load(i, n);
    const F32 magnitude = vec::from_bits(vec::bits(v) & 0x7fffffffu);
    bad += magnitude < infinity ? F32{} : F32{} + 1.0f;
    const F64 a = vec::widen(vec::lower(v));
    const F64 b = vec::widen(vec::upper(v));
    low += a * a;
    high += b * b;
  });
  double total = 0.0;
  for (int i = 0; i < kHalf; ++i) total += low[i] + high[i];
  return {static_cast<double>(vec::sum(bad)), total};
}

}  // namespace

void CpuTrainKernels::column_sum(const Tensor& dy, const Tensor& out, bool accumulate) {
  kernel_checks::column_sum(dy, out);
  refuse_f64("column_sum", dy, out);
  const std::int64_t rows = dy.rows(), columns = dy.columns(), blocks = row_blocks(rows);
  const Tensor partials = floats(blocks * columns);
  auto* p = static_cast<float*>(partials.data());
  parallel_ranges(threads_, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      float* sum = p + i * columns;
      std::fill_n(sum, columns, 0.0f);
      for (std::int64_t r = rows * i / blocks; r < rows * (i + 1) / blocks; ++r) {
        const auto row = Reader(dy).at(r * columns);
        vec::each(0, columns, [&](std::int64_t c, auto n) {
          vec::store(sum + c, vec::load(sum + c, n) + row.load(c, n), n);
        });
      }
    }
  });
  add_partials(p, blocks, columns, out, accumulate);
}

void CpuTrainKernels::sum_of_squares(const Tensor& x, const Tensor& out) {
  kernel_checks::sum_of_squares(x, out);
  refuse_f64("sum_of_squares", x);
  const std::int64_t n = x.elements(), blocks = (n + kBlock - 1) / kBlock;
  std::vector<Squares> partial(static_cast<std::size_t>(blocks));
  const Reader from(x);
  parallel_ranges(threads_, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      partial[static_cast<std::size_t>(i)] =
          squares_of(from, i * kBlock, std::min(n, (i + 1) * kBlock));
  });
  Squares total;
  for (const Squares& p : partial) total.bad += p.bad, total.sum += p.sum;
  out.as<double>()[0] += total.bad;
  out.as<double>()[1] += total.sum;
}

// The sum has no order, so parts are the threads'.
void CpuTrainKernels::fingerprint(const Tensor& x, std::uint64_t key, std::int64_t first,
                                  std::uint64_t factor, const Tensor& out) {
  kernel_checks::fingerprint(x, out);
  const std::int64_t bytes = size_of(x.dtype());
  const auto* data = static_cast<const std::byte*>(x.data());
  std::atomic<std::uint64_t> sum = 0;
  parallel_ranges(
      threads_, x.elements(), kGrain, [&, data, bytes](std::int64_t begin, std::int64_t end) {
        sum += fingerprint_of(data + begin * bytes, end - begin, bytes, key, first + begin);
      });
  add_fingerprint(factor * sum, out.as<double>());
}

}  // namespace trireme
