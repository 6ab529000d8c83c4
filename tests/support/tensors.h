// Making, filling, reading and comparing tensors in tests. Values come from Philox, so a case is
// the same on every machine and on every backend, whatever its type.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "framework/backend/backend.h"

namespace trireme::test {

// The values, converted to `dtype` (rounded to nearest even), in device memory of `backend`.
Tensor tensor(Backend& backend, Shape shape, DType dtype, const std::vector<double>& values);
Tensor ids(Backend& backend, const std::vector<std::int32_t>& values);

// The elements, row-major, as double.
std::vector<double> values(Backend& backend, const Tensor& x);

// Standard normal numbers times `scale`; the same for the same seed.
std::vector<double> normals(std::int64_t count, std::uint64_t seed, double scale = 1.0);
Tensor random_tensor(Backend& backend, Shape shape, DType dtype, std::uint64_t seed,
                     double scale = 1.0);

// `x` rounded to `dtype` and back.
double rounded(double x, DType dtype);

// |a - b| <= tolerance * max|b| for every element (an absolute `tolerance` when b is all zero), and
// NaN only where both have one. The message names the worst element. Use: EXPECT_TRUE(close(got,
// expected, 1e-12)).
::testing::AssertionResult close(const std::vector<double>& got,
                                 const std::vector<double>& expected, double tolerance);

// The same bits in both, read as bytes.
::testing::AssertionResult same_bits(Backend& backend, const Tensor& a, const Tensor& b);

}  // namespace trireme::test
