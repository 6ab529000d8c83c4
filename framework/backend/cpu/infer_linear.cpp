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

// How W and x meet, kStep elements of K at a time, in kParts vectors one after the other.
struct F32Dot {
  using W = float;
  using X = float;
  static constexpr int kStep = vec::kLanes, kParts = 1;
  template <typename Count>
  static F32 load_w(const W* p, int, Count n) {
    return vec::load(p, n);
  }
  template <typename Count>
  static F32 load_x(const X* p, int, Count n) {
    return vec::load(p, n);
  }
  static F32 multiply_add(F32 w, F32 x, F32 sum) { return vec::fma(w, x, sum); }
};

// f16 as storage: x was converted before.
struct StoredF16Dot : F32Dot {
  using W = std::uint16_t;
  template <typename Count>
  static F32 load_w(const W* p, int, Count n) {
    return vec::from_f16(vec::load(p, n));
  }
};

// bf16 as storage, a pair in each 32-bit word of W. x was converted before: of each step first the
// even elements, then the odd ones (spread_pairs), so its steps are whole.
struct StoredPairDot {
  using W = std::uint16_t;
  using X = float;
  static constexpr int kStep = 2 * vec::kLanes, kParts = 2;
  static F32 load_w(const W* p, int part, vec::Whole) {
    const auto words = vec::load_as<vec::U32>(p);
    return vec::from_bits(part == 0 ? words << 16 : words & 0xffff0000u);
  }
  static F32 load_w(const W* p, int part, int n) {
    W whole[kStep] = {};
    std::copy_n(p, n, whole);
    return load_w(whole, part, vec::Whole{});
  }
  template <typename Count>
  static F32 load_x(const X* p, int part, Count) {
    return vec::load(p + part * vec::kLanes);
  }
  static F32 multiply_add(F32 w, F32 x, F32 sum) { return vec::fma(w, x, sum); }
};

#if defined(__AVX512BF16__) && defined(__AVX512VL__)
constexpr bool kMultipliesPairs = true;
struct PairDot {
  using W = std::uint16_t;
  using X = std::uint16_t;
  static constexpr int kStep = 2 * vec::kLanes, kParts = 1;
  static F32 load_w(const W* p, int, vec::Whole) { return vec::load_as<F32>(p); }
  static F32 load_w(const W* p, int, int n) {
    const auto mask = static_cast<__mmask32>(_bzhi_u32(0xffffffffu, static_cast<unsigned>(n)));
    return (F32)_mm512_maskz_loadu_epi16(mask, p);
  }
  template <typename Count>
  static F32 load_x(const X* p, int part, Count n) {
    return load_w(p, part, n);
  }
  static F32 multiply_add(F32 w, F32 x, F32 sum) {
    return (F32)_mm512_dpbf16_ps((__m512)sum, (__m512bh)w, (__m512bh)x);
  }
};
#else  // whatever the CPU could do
constexpr bool kMultipliesPairs = false;
using PairDot = StoredPairDot;
#endif

// What is read after some rows of W, asked for on the way: `bytes` as many as theirs, in the steps
// of K from begin to end.
struct Ahead {
  const char* bytes = nullptr;
  std::int64_t begin = 0, end = 0;
};

// R rows of W by C rows of x, to out[c][r].
template <typename D, int R, int C>
inline void dot_tile(std::int64_t k, const typename D::W* w, const typename D::X* x,
                     std::int64_t x_row, Ahead ahead, float (*out)[kRows]) {
  F32 sum[R][C] = {};
  const auto step = [&](std::int64_t at, auto n) {
#pragma GCC unroll 2
    for (int part = 0; part < D::kParts; ++part) {
      // Words that were kept for the next part would take the registers of sums: they are read
      // anew.
      if constexpr (D::kParts > 1) asm("" : "+r"(at));
      F32 right[C];
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) right[c] = D::load_x(x + c * x_row + at, part, n);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const F32 left = D::load_w(w + r * k + at, part, n);
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) sum[r][c] = D::multiply_add(left, right[c], sum[r][c]);
      }
    }
  };
  std::int64_t at = 0;
  for (; at + D::kStep <= k; at += D::kStep) {
    if (at >= ahead.begin && at < ahead.end) {
      constexpr int kLine = 64, kBytes = R * D::kStep * static_cast<int>(sizeof(typename D::W));
#pragma GCC unroll 8
      for (int line = 0; line < kBytes; line += kLine)
        __builtin_prefetch(ahead.bytes + at * kBytes / D::kStep + line, 0, 2);
    }
    step(at, vec::Whole{});
  }
  if (at < k) step(at, static_cast<int>(k - at));
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) {
    if constexpr (R == 4)
      _mm_storeu_ps(out[c], vec::sums(sum[0][c], sum[1][c], sum[2][c], sum[3][c]));
    else
      for (int r = 0; r < R; ++r) out[c][r] = vec::sum(sum[r][c]);
  }
}

struct Product {
  std::int64_t m, n, k, x_row;  // x_row: elements from a row of x to the next
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
    const Ahead ahead{reinterpret_cast<const char*>(w + row * p.k) + kAhead, 0, p.k};
    dot_tile<D, 1, 1>(p.k, w + row * p.k, x + first * p.x_row, p.x_row, ahead, out);
    put(first, 1, 1);
  }
  for (; row + kRows <= end; row += kRows) {
    const auto* rows = w + row * p.k;
    // A part of the next rows with each of the columns, so that memory is asked evenly.
    const auto ahead = [&](std::int64_t c, std::int64_t columns) {
      if (row + 2 * kRows > end) return Ahead{};
      const std::int64_t all = last - first;
      return Ahead{reinterpret_cast<const char*>(rows + kRows * p.k), p.k * (c - first) / all,
                   p.k * (c - first + columns) / all};
    };
    std::int64_t c = first;
    for (; c + kColumns <= last; c += kColumns) {
      dot_tile<D, kRows, kColumns>(p.k, rows, x + c * p.x_row, p.x_row, ahead(c, kColumns), out);
      put(c, kColumns, kRows);
    }
    for (; c < last; ++c) {
      dot_tile<D, kRows, 1>(p.k, rows, x + c * p.x_row, p.x_row, ahead(c, 1), out);
      put(c, 1, kRows);
    }
  }
  for (; row < end; ++row)
    for (std::int64_t c = first; c < last; ++c) {
      dot_tile<D, 1, 1>(p.k, w + row * p.k, x + c * p.x_row, p.x_row, {}, out);
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

// Rows of bf16 as StoredPairDot wants them, (M, K rounded up to its steps).
void spread_pairs(int threads, const Tensor& x, const Tensor& to) {
  constexpr std::int64_t kStep = StoredPairDot::kStep;
  const std::int64_t k = x.columns(), row = to.columns();
  const auto* from = static_cast<const std::uint16_t*>(x.data());
  parallel_ranges(threads, x.rows(), 1 + 16384 / row, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t at = 0; at < k; at += kStep)
        for (int part = 0; part < StoredPairDot::kParts; ++part) {
          const auto* p = from + r * k + at;
          const F32 half = at + kStep <= k
                               ? StoredPairDot::load_w(p, part, vec::Whole{})
                               : StoredPairDot::load_w(p, part, static_cast<int>(k - at));
          vec::store(to.as<float>() + r * row + at + part * vec::kLanes, half);
        }
  });
}

}  // namespace

void CpuInferKernels::row_linear(const Tensor& x, const Tensor& w, const Tensor& bias,
                                 const Tensor& y) {
  const std::int64_t k = x.columns();
  const auto product = [&](std::int64_t x_row) {
    return Product{x.rows(), w.rows(), k, x_row, bias, y};
  };
  if (x.dtype() == DType::kF32)
    return dot_product<F32Dot>(threads_, product(k), w.data(), x.data());
  if (kMultipliesPairs && bf16_ && x.dtype() == DType::kBF16)
    return dot_product<PairDot>(threads_, product(k), w.data(), x.data());
  const bool half = x.dtype() == DType::kF16;
  const std::int64_t step = half ? 1 : StoredPairDot::kStep, row = (k + step - 1) / step * step;
  const Tensor wide = owner_.allocate({x.rows(), row}, DType::kF32, MemoryKind::kWorkspace);
  if (half) {
    kernels_.cast(x, wide);
    return dot_product<StoredF16Dot>(threads_, product(row), w.data(), wide.data());
  }
  spread_pairs(threads_, x, wide);
  dot_product<StoredPairDot>(threads_, product(row), w.data(), wide.data());
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
