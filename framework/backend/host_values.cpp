#include "framework/backend/host_values.h"

#include <algorithm>
#include <cstdint>

#include "framework/base/error.h"

namespace trireme {

namespace {

// `T` from double, rounding once where the type is narrower than f32.
template <typename T>
T narrow(double value) {
  if constexpr (std::is_same_v<T, double> || std::is_same_v<T, float>)
    return static_cast<T>(value);
  else
    return T(static_cast<float>(value));
}

template <typename T>
double widen(T value) {
  if constexpr (std::is_same_v<T, double> || std::is_same_v<T, float>)
    return value;
  else
    return static_cast<float>(value);
}

template <typename T>
void upload_as(Backend& backend, std::span<const double> values, const Tensor& to) {
  std::vector<T> host(values.size());
  std::transform(values.begin(), values.end(), host.begin(), narrow<T>);
  backend.upload(host.data(), to);
}

template <typename T>
std::vector<double> download_as(Backend& backend, const Tensor& from) {
  std::vector<T> host(static_cast<std::size_t>(from.elements()));
  backend.download(from, host.data());
  std::vector<double> values(host.size());
  std::transform(host.begin(), host.end(), values.begin(), widen<T>);
  return values;
}

}  // namespace

void upload_doubles(Backend& backend, std::span<const double> values, const Tensor& to) {
  check(static_cast<std::int64_t>(values.size()) == to.elements(), "upload: ", values.size(),
        " values for a tensor of shape ", to.shape());
  switch (to.dtype()) {
    case DType::kF64:
      return upload_as<double>(backend, values, to);
    case DType::kF32:
      return upload_as<float>(backend, values, to);
    case DType::kBF16:
      return upload_as<BFloat16>(backend, values, to);
    case DType::kF16:
      return upload_as<Float16>(backend, values, to);
    default:
      fail("upload: ", name_of(to.dtype()), " holds no floating values");
  }
}

std::vector<double> download_doubles(Backend& backend, const Tensor& from) {
  switch (from.dtype()) {
    case DType::kF64:
      return download_as<double>(backend, from);
    case DType::kF32:
      return download_as<float>(backend, from);
    case DType::kBF16:
      return download_as<BFloat16>(backend, from);
    case DType::kF16:
      return download_as<Float16>(backend, from);
    default:
      fail("download: ", name_of(from.dtype()), " holds no floating values");
  }
}

void upload_ids(Backend& backend, std::span<const std::int32_t> ids, const Tensor& to) {
  check(to.dtype() == DType::kI32 && static_cast<std::int64_t>(ids.size()) == to.elements(),
        "upload: ", ids.size(), " ids for a tensor of shape ", to.shape());
  backend.upload(ids.data(), to);
}

}  // namespace trireme
