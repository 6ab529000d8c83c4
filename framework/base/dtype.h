// Element types of tensors, and the 16-bit storage formats.
//
// f64 and f32 compute; bf16 and f16 are storage with f32 (or wider) accumulation; i32 holds token
// ids; u8 raw bytes.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace trireme {

enum class DType : std::uint8_t { kF64, kF32, kBF16, kF16, kI32, kU8 };

// Bytes of one element.
constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 8;
    case DType::kF32:
      return 4;
    case DType::kI32:
      return 4;
    case DType::kBF16:
      return 2;
    case DType::kF16:
      return 2;
    case DType::kU8:
      return 1;
  }
  return 0;
}

// "f64", "f32", "bf16", "f16", "i32", "u8".
std::string_view name_of(DType dtype);

constexpr bool is_floating(DType dtype) { return dtype != DType::kI32 && dtype != DType::kU8; }

// The type in which sums over values of `dtype` are kept: itself for f64, f32 for everything else.
constexpr DType accumulation_type(DType dtype) {
  return dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

// Brain float: the upper half of an f32. Rounds to nearest even; NaN stays NaN (quiet).
struct BFloat16 {
  std::uint16_t bits;
  BFloat16() = default;
  explicit BFloat16(float value) {
    auto u = std::bit_cast<std::uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u)
      bits = static_cast<std::uint16_t>((u >> 16) | 0x40u);
    else
      bits = static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

// IEEE half. Conversions are the compiler's (F16C where the machine has it), to nearest even.
struct Float16 {
  std::uint16_t bits;
  Float16() = default;
  explicit Float16(float value) {
    _Float16 h = static_cast<_Float16>(value);
    std::memcpy(&bits, &h, 2);
  }
  explicit operator float() const {
    _Float16 h;
    std::memcpy(&h, &bits, 2);
    return static_cast<float>(h);
  }
};

}  // namespace trireme
