// Runs one operation on the cpu backend and on the reference and compares: operands are plain
// vectors of double, rounded to the wanted type on each side.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/backend/backend.h"
#include "framework/base/random.h"

namespace trireme::cpu_test {

using Values = std::vector<double>;

inline std::unique_ptr<Backend> cpu(int threads = 2) {
  return make_cpu_backend(std::make_shared<MemoryLedger>(), threads);
}
inline std::unique_ptr<Backend> reference() {
  return make_reference_backend(std::make_shared<MemoryLedger>());
}

inline Values random_values(std::int64_t count, std::uint64_t seed) {
  Values v(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = random_normal(key_from_seed(seed), i);
  return v;
}

inline Tensor upload(Backend& b, Shape shape, DType type, const Values& v) {
  std::vector<float> wide(v.begin(), v.end());
  Tensor t = b.allocate(shape, DType::kF32, MemoryKind::kActivations);
  b.upload(wide.data(), t);
  if (type == DType::kF32) return t;
  Tensor narrow = b.allocate(shape, type, MemoryKind::kActivations);
  b.kernels()->cast(t, narrow);
  return narrow;
}

inline Values download(Backend& b, const Tensor& t) {
  Tensor wide = b.allocate(t.shape(), DType::kF32, MemoryKind::kActivations);
  b.kernels()->cast(t, wide);
  std::vector<float> v(static_cast<std::size_t>(t.elements()));
  b.download(wide, v.data());
  return {v.begin(), v.end()};
}

// Largest difference relative to the largest magnitude.
inline double distance(const Values& a, const Values& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 1e-30, apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i])) return INFINITY;
    most = std::max(most, std::abs(b[i]));
    apart = std::max(apart, std::abs(a[i] - b[i]));
  }
  return apart / most;
}

}  // namespace trireme::cpu_test
