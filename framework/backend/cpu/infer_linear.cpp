// y = x W^T + b, at the rate at which W is read where rows are few. Each output is one vector of
// sums in ascending k, added up at the end, whatever the number of rows. Legend: M rows of x, N
// outputs, K inputs; W (N, K).
#include <algorithm>

#include "framework/backend/cpu/cpu_infer_kernels.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/vector.h"
#include "framework/base/error.h"

namespace trireme {

namespace {

using vec::F32;

constexpr std::int64_t kOwnRows = 32;  // more of f32 are a library's work
constexpr int kRows = 4;               // of W at a time: neighbours, so one stretch of memory
constexpr int kColumns = vec::kLanes == 16 ? 4 : 2;  // rows of x at a time
constexpr std::int64_t kBytesAtOnce = 256 << 10;     // of x, which stay in the second cache level
constexpr std::int64_t kAhead = 2048;                // bytes of W

// How a vector's worth of W and x meets. kStep elements of K a vector.
struct F32Dot {
  using W = float;
  using X = float;
  static constexpr int kStep = vec::kLanes;
  using Vector = F32;
  template <typename Count>
  static F32 load_w(const W* p, Count n) {
    return vec::load(p, n);
  }
  template <typename Count>
  static F32 load_x(const X* p, Count n) {
    return vec::load(p, n);
  }
  static F32 multiply_add(Vector a, Vector b, F32 c) { return vec::fma(a, b, c); }
};

// 16 bits as storage: x was converted before.
struct StoredDot : F32Dot {
  using W = std::uint16_t;
  template <typename Count>
  static F32 load_w(const W* p, Count n) {
    return vec::from_bf16(vec::load(p, n));
  }
};
struct StoredF16Dot : StoredDot {
  template <typename Count>
  static F32 load_w(const W* p, Count n) {
    return vec::from_f16(vec::load(p, n));
  }
};

#if defined(__AVX512BF16__) && defined(__AVX512VL__)
constexpr bool kMultipliesPairs = true;
struct PairDot {
  using W = std::uint16_t;
  using X = std::uint16_t;
  static constexpr int kStep = 2 * vec::kLanes;
  using Vector = F32;
  static F32 load_w(const W* p, vec::Whole) { return vec::load_as<F32>(p); }
  static F32 load_w(const W* p, int n) {
    const auto mask = static_cast<__mmask32>(_bzhi_u32(0xffffffffu, static_cast<unsigned>(n)));
    return (F32)_mm512_maskz_loadu_epi16(mask, p);
  }
  template <typename Count>
  static F32 load_x(const X* p, Count n) {
    return load_w(p, n);
  }
  static F32 multiply_add(Vector a, Vector b, F32 c) {
    return (F32)_mm512_dpbf16_ps((__m512)c, (__m512bh)a, (__m512bh)b);
  }
};
#else  // whatever the CPU could do
constexpr bool kMultipliesPairs = false;
using PairDot = StoredDot;
#endif

// R rows of W by C rows of x. `next`: what is read after these rows, asked for on the way.
template <typename D, int R, int C>
inline void dot_tile(std::int64_t k, const typename D::W* w, const typename D::X* x,
                     std::int64_t x_row, const char* next, float (&out)[kColumns][kRows]) {
  F32 sum[R][C] = {};
  const auto step = [&](std::int64_t at, auto n) {
    typename D::Vector left[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) left[r] = D::load_w(w + r * k + at, n);
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      const auto right = D::load_x(x + c * x_row + at, n);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) sum[r][c] = D::multiply_add(left[r], right, sum[r][c]);
    }
  };
  std::int64_t at = 0;
  for (; at + D::kStep <= k; at += D::kStep) {
    if (next) {
      constexpr int kLine = 64, kBytes = R * D::kStep * static_cast<int>(sizeof(typename D::W));
#pragma GCC unroll 8
      for (int line = 0; line < kBytes; line += kLine) __builtin_prefetch(next + line, 0, 2);
      next += kBytes;
    }
    step(at, vec::Whole{});
  }
  if (at < k) step(at, static_cast<int>(k - at));
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) out[c][r] = vec::sum(sum[r][c]);
}

struct Product {
  std::int64_t m, n, k;
  const Tensor& bias;
  const Tensor& y;
};

// Outputs [begin, end) of rows [first, last) of x.
template <typename D>
void dot_rows(const Product& p, const typename D::W* w, const typename D::X* x, std::int64_t first,
              std::int64_t last, std::int64_t begin, std::int64_t end) {
  const vec::Writer to(p.y);
  float out[kColumns][kRows];
  std::int64_t row = begin;
  const auto put = [&](std::int64_t column, int columns, int rows) {
    const F32 add = p.bias ? vec::Reader(p.bias).load(row, rows) : F32{};
    for (int c = 0; c < columns; ++c)
      to.store((column + c) * p.n + row, vec::load(out[c], rows) + add, rows);
  };
  // One row of x: W in address order, asked for a little ahead, is read at the memory's rate.
  constexpr bool kWholeLines = D::kStep * sizeof(typename D::W) >= 64;
  for (; kWholeLines && last - first == 1 && row < end; ++row) {
    const auto* ahead = reinterpret_cast<const char*>(w + row * p.k) + kAhead;
    dot_tile<D, 1, 1>(p.k, w + row * p.k, x + first * p.k, p.k, ahead, out);
    put(first, 1, 1);
  }
  for (; row + kRows <= end; row += kRows) {
    const auto* rows = w + row * p.k;
    const auto* next =
        row + 2 * kRows <= end ? reinterpret_cast<const char*>(rows + kRows * p.k) : nullptr;
    std::int64_t c = first;
    for (; c + kColumns <= last; c += kColumns, next = nullptr) {
      dot_tile<D, kRows, kColumns>(p.k, rows, x + c * p.k, p.k, next, out);
      put(c, kColumns, kRows);
    }
    for (; c < last; ++c, next = nullptr) {
      dot_tile<D, kRows, 1>(p.k, rows, x + c * p.k, p.k, next, out);
      put(c, 1, kRows);
    }
  }
  for (; row < end; ++row)
    for (std::int64_t c = first; c < last; ++c) {
      dot_tile<D, 1, 1>(p.k, w + row * p.k, x + c * p.k, p.k, nullptr, out);
      put(c, 1, 1);
    }
}

template <typename D>
void dot_product(int threads, const Product& p, const void* w, const void* x) {
  // Cut between groups of rows, so that a group never depends on the number of threads.
  const std::int64_t groups = (p.n + kRows - 1) / kRows;
  const std::int64_t at_once = std::max<std::int64_t>(
      32, kBytesAtOnce /
              (std::max<std::int64_t>(1, p.k) * static_cast<std::int64_t>(sizeof(typename D::X))) /
              kColumns * kColumns);
  parallel_ranges(
      threads, groups, 1 + 65536 / (kRows * p.k * p.m + 1),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = 0; row < p.m; row += at_once)
          dot_rows<D>(p, static_cast<const typename D::W*>(w), static_cast<const typename D::X*>(x),
                      row, std::min(p.m, row + at_once), begin * kRows, std::min(p.n, end * kRows));
      });
}

}  // namespace

void CpuInferKernels::row_linear(const Tensor& x, const Tensor& w, const Tensor& bias,
                                 const Tensor& y) {
  const Product p{x.rows(), w.rows(), x.columns(), bias, y};
  if (x.dtype() == DType::kF32) return dot_product<F32Dot>(threads_, p, w.data(), x.data());
  const bool half = x.dtype() == DType::kF16;
  if (kMultipliesPairs && bf16_ && !half)
    return dot_product<PairDot>(threads_, p, w.data(), x.data());
  const Tensor wide = owner_.allocate(x.shape(), DType::kF32, MemoryKind::kWorkspace);
  kernels_.cast(x, wide);
  half ? dot_product<StoredF16Dot>(threads_, p, w.data(), wide.data())
       : dot_product<StoredDot>(threads_, p, w.data(), wide.data());
}

void CpuInferKernels::linear(const Tensor& x, const Tensor& w, const Tensor& bias,
                             const Tensor& y) {
  infer_checks::linear(x, w, bias, y);
  check(x.dtype() != DType::kF64, "linear: the cpu backend computes f32, bf16 and f16, not f64");
  if (y.elements() == 0) return;
  if (x.dtype() == DType::kBF16 && tiles_ && w.rows() >= 32) return tile_linear(x, w, bias, y);
  if (kMultipliesPairs && bf16_ && x.dtype() == DType::kBF16) return row_linear(x, w, bias, y);
  std::int64_t done = 0;
  const auto rows = [&](std::int64_t count, bool own) {
    const std::int64_t end = done + count;
    const Tensor in = x.sliced_rows(done, end), out = y.sliced_rows(done, end);
    own ? row_linear(in, w, bias, out)
        : kernels_.matmul({.a = in, .b = w, .c = out, .transpose_b = true, .bias = bias});
    done = end;
  };
  for (const std::int64_t piece : {512, 256, 128, 64})
    while (x.rows() - done >= piece) rows(piece, false);
  while (done < x.rows()) rows(std::min(kOwnRows, x.rows() - done), true);
}

void CpuInferKernels::top(const TopRows& top, const Tensor& logits, const Tensor& words) {
  infer_checks::top(top, logits, words);
  parallel_ranges(threads_, logits.rows(), 1, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t rows = end - begin, each = top.words();
    InferKernels::top(top, logits.sliced_rows(begin, end),
                      words.elements_at(begin * each, {rows, each}));
  });
}

}  // namespace trireme
