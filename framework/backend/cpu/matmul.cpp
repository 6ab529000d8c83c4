// Matrix products through oneDNN: straight from plain row-major buffers where it multiplies their
// type, else in f32 from converted blocks.
#include <algorithm>

#include "framework/backend/cpu/cpu_kernels.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/vector.h"
#include "framework/backend/kernel_checks.h"
#include "framework/base/error.h"

namespace trireme {

namespace {

// K = 0: the sum is empty.
void empty_product(CpuKernels& kernels, const Matmul& m) {
  if (m.accumulate) return;
  kernels.fill(m.c, 0.0);
  if (m.bias) kernels.add_bias(m.bias, m.c);
}

// Bounds the workspace of a converted product to 3 x 4 MiB, and the conversions to some percent of
// the time of a large one.
constexpr std::int64_t kMostBlock = 1024;

// Equal blocks of an extent, of whole vectors.
std::int64_t block_of(std::int64_t extent) {
  const std::int64_t blocks = (extent + kMostBlock - 1) / kMostBlock;
  return std::min(extent, ((extent + blocks - 1) / blocks + 15) / 16 * 16);
}

// Calls f(begin, length) for the blocks of [0, extent).
template <typename F>
void for_each_block(std::int64_t extent, std::int64_t block, F f) {
  for (std::int64_t begin = 0; begin < extent; begin += block)
    f(begin, std::min(block, extent - begin));
}

MatrixBlock turned(bool transposed, MatrixBlock b) {
  return transposed ? MatrixBlock{b.column, b.row, b.columns, b.rows} : b;
}

}  // namespace

void CpuKernels::matmul(const Matmul& m) {
  const auto extents = kernel_checks::matmul(m);
  refuse_f64("matmul", m.a, m.c, m.bias);
  if (m.c.elements() == 0) return;
  if (extents.k == 0) return empty_product(*this, m);

  const DType type = multiplied_as(m.a.dtype());
  Matmul product = m;
  if (m.bias && m.bias.dtype() != DType::kF32 && m.bias.dtype() != type) {
    product.bias = floats(extents.n);
    cast(m.bias, product.bias);
  }
  MatmulProblem p{.m = extents.m, .n = extents.n, .k = extents.k};
  p.a_row = m.transpose_a ? 1 : extents.k;
  p.a_column = m.transpose_a ? extents.m : 1;
  p.b_row = m.transpose_b ? 1 : extents.n;
  p.b_column = m.transpose_b ? extents.k : 1;
  p.c_row = extents.n;
  p.operands = type;
  p.result = m.c.dtype();
  p.has_bias = product.bias.defined();
  p.bias = product.bias ? product.bias.dtype() : DType::kF32;
  p.accumulate = m.accumulate;
  if (m.a.dtype() != type) return converted_matmul(product, p);
  run(p, m.a.data(), m.b.data(), product.bias.data(), m.c.data());
}

void CpuKernels::run(const MatmulProblem& p, const void* a, const void* b, const void* bias,
                     void* c) {
  const std::int64_t scratch = dnnl_.scratch_bytes(p);
  if (scratch > 0 && (!scratch_ || scratch_.bytes() < scratch)) {
    scratch_ = {};
    scratch_ = owner_.allocate({scratch}, DType::kU8, MemoryKind::kWorkspace);
  }
  dnnl_.run(p, a, b, bias, c, scratch_.data());
}

// Sums of a block of c stay in f32 over the blocks of K and are rounded once.
void CpuKernels::converted_matmul(const Matmul& m, MatmulProblem whole) {
  const std::int64_t rows = block_of(whole.m), columns = block_of(whole.n),
                     depth = block_of(whole.k);
  const bool narrow = whole.result != DType::kF32;
  const Tensor a = floats(rows * depth), b = floats(depth * columns);
  const Tensor sums = narrow ? floats(rows * columns) : Tensor();
  const auto* bias = static_cast<const float*>(m.bias.data());
  const auto block = [&](MatrixBlock at) {
    float* c = narrow ? sums.as<float>() : m.c.as<float>() + at.row * whole.n + at.column;
    if (narrow && m.accumulate) load_block(m.c, at, c);
    for_each_block(whole.k, depth, [&](std::int64_t k, std::int64_t count) {
      load_block(m.a, turned(m.transpose_a, {at.row, k, at.rows, count}), a.as<float>());
      load_block(m.b, turned(m.transpose_b, {k, at.column, count, at.columns}), b.as<float>());
      MatmulProblem p{.m = at.rows, .n = at.columns, .k = count};
      p.a_row = m.transpose_a ? 1 : count;
      p.a_column = m.transpose_a ? at.rows : 1;
      p.b_row = m.transpose_b ? 1 : at.columns;
      p.b_column = m.transpose_b ? count : 1;
      p.c_row = narrow ? at.columns : whole.n;
      p.has_bias = bias && k == 0;
      p.accumulate = m.accumulate || k > 0;
      run(p, a.data(), b.data(), p.has_bias ? bias + at.column : nullptr, c);
    });
    if (narrow) store_block(c, at, m.c);
  };
  for_each_block(whole.n, columns, [&](std::int64_t n, std::int64_t width) {
    for_each_block(whole.m, rows, [&](std::int64_t r, std::int64_t height) {
      block({r, n, height, width});
    });
  });
}

void CpuKernels::load_block(const Tensor& x, MatrixBlock block, float* to) {
  const vec::Reader from(x);
  const std::int64_t stride = x.columns();
  parallel_ranges(threads_, block.rows, 1 + 16384 / block.columns,
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t r = begin; r < end; ++r) {
                      const auto row = from.at((block.row + r) * stride + block.column);
                      vec::each(0, block.columns, [&](std::int64_t c, auto n) {
                        vec::store(to + r * block.columns + c, row.load(c, n), n);
                      });
                    }
                  });
}

void CpuKernels::store_block(const float* from, MatrixBlock block, const Tensor& x) {
  const vec::Writer to(x);
  const std::int64_t stride = x.columns();
  parallel_ranges(threads_, block.rows, 1 + 16384 / block.columns,
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t r = begin; r < end; ++r) {
                      const auto row = to.at((block.row + r) * stride + block.column);
                      vec::each(0, block.columns, [&](std::int64_t c, auto n) {
                        row.store(c, vec::load(from + r * block.columns + c, n), n);
                      });
                    }
                  });
}

}  // namespace trireme
