#include "tests/support/tensors.h"

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"

namespace trireme::test {

namespace {

// Device bytes of `values` as elements of type T.
template <typename T, typename Via>
void upload_as(Backend& backend, const Tensor& to, const std::vector<double>& values) {
  std::vector<T> host;
  host.reserve(values.size());
  for (double v : values) host.push_back(T(static_cast<Via>(v)));
  backend.upload(host.data(), to);
}

template <typename T, typename Via>
std::vector<double> download_as(Backend& backend, const Tensor& from) {
  std::vector<T> host(static_cast<std::size_t>(from.elements()));
  backend.download(from, host.data());
  std::vector<double> out;
  out.reserve(host.size());
  for (T v : host) out.push_back(static_cast<double>(static_cast<Via>(v)));
  return out;
}

}  // namespace

Tensor tensor(Backend& backend, Shape shape, DType dtype, const std::vector<double>& values) {
  check(shape.elements() == static_cast<std::int64_t>(values.size()), "test: ", values.size(),
        " values for shape ", shape);
  Tensor x = backend.allocate(shape, dtype, MemoryKind::kActivations);
  switch (dtype) {
    case DType::kF64:
      upload_as<double, double>(backend, x, values);
      break;
    case DType::kF32:
      upload_as<float, double>(backend, x, values);
      break;
    case DType::kBF16:
      upload_as<BFloat16, float>(backend, x, values);
      break;
    case DType::kF16:
      upload_as<Float16, float>(backend, x, values);
      break;
    case DType::kI32:
      upload_as<std::int32_t, std::int32_t>(backend, x, values);
      break;
    case DType::kU8:
      upload_as<std::uint8_t, std::uint8_t>(backend, x, values);
      break;
  }
  return x;
}

Tensor ids(Backend& backend, const std::vector<std::int32_t>& values) {
  Tensor x = backend.allocate({static_cast<std::int64_t>(values.size())}, DType::kI32,
                              MemoryKind::kActivations);
  backend.upload(values.data(), x);
  return x;
}

std::vector<double> values(Backend& backend, const Tensor& x) {
  switch (x.dtype()) {
    case DType::kF64:
      return download_as<double, double>(backend, x);
    case DType::kF32:
      return download_as<float, float>(backend, x);
    case DType::kBF16:
      return download_as<BFloat16, float>(backend, x);
    case DType::kF16:
      return download_as<Float16, float>(backend, x);
    case DType::kI32:
      return download_as<std::int32_t, std::int32_t>(backend, x);
    case DType::kU8:
      return download_as<std::uint8_t, std::uint8_t>(backend, x);
  }
  fail("test: unknown type");
}

std::vector<double> normals(std::int64_t count, std::uint64_t seed, double scale) {
  const RngKey key = key_from_seed(seed);
  std::vector<double> out;
  out.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(scale * random_normal(key, static_cast<std::uint64_t>(i)));
  return out;
}

Tensor random_tensor(Backend& backend, Shape shape, DType dtype, std::uint64_t seed, double scale) {
  return tensor(backend, shape, dtype, normals(shape.elements(), seed, scale));
}

double rounded(double x, DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<double>(static_cast<float>(x));
    case DType::kBF16:
      return static_cast<double>(static_cast<float>(BFloat16(static_cast<float>(x))));
    case DType::kF16:
      return static_cast<double>(static_cast<float>(Float16(static_cast<float>(x))));
    default:
      return x;
  }
}

::testing::AssertionResult close(const std::vector<double>& got,
                                 const std::vector<double>& expected, double tolerance) {
  if (got.size() != expected.size())
    return ::testing::AssertionFailure() << got.size() << " elements, expected " << expected.size();
  double largest = 0;
  for (double e : expected)
    if (std::isfinite(e)) largest = std::max(largest, std::fabs(e));
  const double bound = tolerance * (largest > 0 ? largest : 1.0);
  double worst = -1;
  std::size_t where = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool equal = got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]));
    const double gap = equal ? 0 : std::fabs(got[i] - expected[i]);
    const double error = std::isfinite(gap) ? gap : HUGE_VAL;
    if (error > worst) {
      worst = error;
      where = i;
    }
  }
  if (worst <= bound) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "element " << where << " is " << got[where] << ", expected " << expected[where]
         << ": apart by " << worst << ", allowed " << bound << " (" << tolerance
         << " of the largest, " << largest << ")";
}

::testing::AssertionResult same_bits(Backend& backend, const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.elements() != b.elements())
    return ::testing::AssertionFailure() << "types or element counts differ";
  std::vector<unsigned char> x(static_cast<std::size_t>(a.bytes())), y(x.size());
  backend.download(a, x.data());
  backend.download(b, y.data());
  const auto differ = std::mismatch(x.begin(), x.end(), y.begin());
  if (differ.first == x.end()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "element " << (differ.first - x.begin()) / size_of(a.dtype()) << " differs";
}

}  // namespace trireme::test
