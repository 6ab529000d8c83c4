// Elementwise kernels. f64 appears here only as storage of a few accumulators: those take a plain
// loop.
#include "framework/backend/cpu/cpu_kernels.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/random_words.h"
#include "framework/backend/cpu/vector.h"
#include "framework/backend/kernel_checks.h"

namespace trireme {

namespace {

constexpr std::int64_t kGrain = 16384;  // elements a thread is worth waking for

double element_as_f64(const Tensor& x, std::int64_t i) {
  if (x.dtype() == DType::kF64) return x.as<double>()[i];
  return static_cast<double>(vec::Reader(x).one(i));
}

void set_element(const Tensor& x, std::int64_t i, double value) {
  if (x.dtype() == DType::kF64)
    x.as<double>()[i] = value;
  else
    vec::Writer(x).one(i, static_cast<float>(value));
}

void cast_f64(const Tensor& from, const Tensor& to) {
  for (std::int64_t i = 0; i < to.elements(); ++i) set_element(to, i, element_as_f64(from, i));
}

// In the wide type of out: operands are rounded to it first.
void add_f64(const Tensor& a, const Tensor& b, const Tensor& out) {
  for (std::int64_t i = 0; i < out.elements(); ++i) {
    const double x = element_as_f64(a, i), y = element_as_f64(b, i);
    const float narrow = static_cast<float>(x) + static_cast<float>(y);
    set_element(out, i, out.dtype() == DType::kF64 ? x + y : static_cast<double>(narrow));
  }
}

}  // namespace

void CpuKernels::add(const Tensor& a, const Tensor& b, const Tensor& out) {
  kernel_checks::add(a, b, out);
  if (a.dtype() == DType::kF64 || b.dtype() == DType::kF64 || out.dtype() == DType::kF64)
    return add_f64(a, b, out);
  const vec::Reader x(a), y(b);
  const vec::Writer to(out);
  parallel_ranges(threads_, out.elements(), kGrain, [=](std::int64_t begin, std::int64_t end) {
    vec::each(begin, end,
              [&](std::int64_t i, auto n) { to.store(i, x.load(i, n) + y.load(i, n), n); });
  });
}

void CpuKernels::add_bias(const Tensor& bias, const Tensor& out) {
  kernel_checks::add_bias(bias, out);
  refuse_f64("add_bias", bias, out);
  const std::int64_t columns = out.columns();
  const vec::Reader add(bias);
  parallel_ranges(threads_, out.rows(), 1 + kGrain / (columns + 1),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t r = begin; r < end; ++r) {
                      const auto row = vec::Writer(out).at(r * columns);
                      vec::each(0, columns, [&](std::int64_t c, auto n) {
                        row.store(c, row.reader().load(c, n) + add.load(c, n), n);
                      });
                    }
                  });
}

void CpuKernels::cast(const Tensor& from, const Tensor& to) {
  kernel_checks::cast(from, to);
  if (from.dtype() == to.dtype()) {
    parallel_ranges(threads_, to.bytes(), 4 * kGrain, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(static_cast<std::byte*>(to.data()) + begin,
                  static_cast<const std::byte*>(from.data()) + begin,
                  static_cast<std::size_t>(end - begin));
    });
    return;
  }
  if (from.dtype() == DType::kF64 || to.dtype() == DType::kF64) return cast_f64(from, to);
  const vec::Reader x(from);
  const vec::Writer y(to);
  parallel_ranges(threads_, to.elements(), kGrain, [=](std::int64_t begin, std::int64_t end) {
    vec::each(begin, end, [&](std::int64_t i, auto n) { y.store(i, x.load(i, n), n); });
  });
}

void CpuKernels::fill(const Tensor& x, double value) {
  kernel_checks::fill(x);
  if (x.dtype() == DType::kF64) {
    std::fill_n(x.as<double>(), x.elements(), value);
    return;
  }
  if (x.dtype() == DType::kI32) {
    std::fill_n(x.as<std::int32_t>(), x.elements(), static_cast<std::int32_t>(value));
    return;
  }
  if (x.dtype() == DType::kU8) {
    std::fill_n(x.as<std::uint8_t>(), x.elements(), static_cast<std::uint8_t>(value));
    return;
  }
  const vec::F32 v = vec::set1(static_cast<float>(value));
  const vec::Writer to(x);
  parallel_ranges(threads_, x.elements(), kGrain, [=](std::int64_t begin, std::int64_t end) {
    vec::each(begin, end, [&](std::int64_t i, auto n) { to.store(i, v, n); });
  });
}

void CpuKernels::scale(const Tensor& x, double factor) {
  kernel_checks::scale(x);
  if (x.dtype() == DType::kF64) {
    for (std::int64_t i = 0; i < x.elements(); ++i) x.as<double>()[i] *= factor;
    return;
  }
  const vec::F32 f = vec::set1(static_cast<float>(factor));
  const vec::Writer to(x);
  parallel_ranges(threads_, x.elements(), kGrain, [=](std::int64_t begin, std::int64_t end) {
    vec::each(begin, end,
              [&](std::int64_t i, auto n) { to.store(i, to.reader().load(i, n) * f, n); });
  });
}

void CpuKernels::dropout(const Dropout& d, const Tensor& x, const Tensor& y) {
  kernel_checks::dropout(d, x, y);
  refuse_f64("dropout", x, y);
  constexpr std::int64_t kChunk = 256;
  const std::int64_t columns = x.columns();
  const vec::F32 factor = vec::set1(static_cast<float>(d.scale));
  const vec::U32 threshold = vec::U32{} + d.threshold;
  parallel_ranges(threads_, x.rows(), 1 + kGrain / 4 / (columns + 1),
                  [&](std::int64_t begin, std::int64_t end) {
                    std::uint32_t words[kChunk];
                    for (std::int64_t r = begin; r < end; ++r)
                      for (std::int64_t c = 0; c < columns; c += kChunk) {
                        const std::int64_t count = std::min(kChunk, columns - c);
                        random_words(d.key,
                                     static_cast<std::uint64_t>(
                                         (d.first_row + r) * d.total_columns + d.first_column + c),
                                     count, words);
                        const auto in = vec::Reader(x).at(r * columns + c);
                        const auto out = vec::Writer(y).at(r * columns + c);
                        vec::each(0, count, [&](std::int64_t i, auto n) {
                          const vec::U32 word =
                              vec::load_as<vec::U32>(words + i);  // kChunk is whole vectors
                          out.store(i, word < threshold ? vec::F32{} : in.load(i, n) * factor, n);
                        });
                      }
                  });
}

}  // namespace trireme
