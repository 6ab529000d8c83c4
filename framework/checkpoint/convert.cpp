#include "framework/checkpoint/convert.h"

#include <cstring>
#include <type_traits>

#include "framework/base/error.h"
#include "framework/base/rounding.h"

namespace trireme {

namespace {

template <typename T>
auto widened(T x) {
  if constexpr (std::is_same_v<T, double>)
    return x;
  else
    return static_cast<float>(x);
}

template <typename To, typename Wide>
To narrowed(Wide x) {
  if constexpr (std::is_same_v<Wide, double> && std::is_same_v<To, BFloat16>)
    return round_to_bf16(x);
  else if constexpr (std::is_same_v<Wide, double> && std::is_same_v<To, Float16>)
    return round_to_f16(x);
  else
    return static_cast<To>(x);
}

template <typename From, typename To>
void convert(const std::byte* from, std::byte* to, std::int64_t count) {
  if constexpr (std::is_same_v<From, To>) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(From));
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      From x;
      std::memcpy(&x, from + i * static_cast<std::int64_t>(sizeof x), sizeof x);
      const To y = narrowed<To>(widened(x));
      std::memcpy(to + i * static_cast<std::int64_t>(sizeof y), &y, sizeof y);
    }
  }
}

template <typename From>
Convert from_type(DType to) {
  switch (to) {
    case DType::kF64:
      return convert<From, double>;
    case DType::kF32:
      return convert<From, float>;
    case DType::kBF16:
      return convert<From, BFloat16>;
    case DType::kF16:
      return convert<From, Float16>;
    default:
      return nullptr;
  }
}

}  // namespace

Convert converter(DType from, DType to) {
  Convert found = nullptr;
  if (from == DType::kF64) found = from_type<double>(to);
  if (from == DType::kF32) found = from_type<float>(to);
  if (from == DType::kBF16) found = from_type<BFloat16>(to);
  if (from == DType::kF16) found = from_type<Float16>(to);
  check(found != nullptr, "a checkpoint's ", name_of(from), " cannot be read as ", name_of(to),
        "; f64, f32, bf16 and f16 can be read as each other");
  return found;
}

}  // namespace trireme
