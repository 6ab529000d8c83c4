// Legend as in quantized.h.
#include "framework/backend/quantized.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr std::int64_t kQuad = 4;

template <typename T>
T load(const std::uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <typename T>
void store(std::uint8_t* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// The neighbours of x among bf16 numbers.
BFloat16 bf16_below(float x) {
  BFloat16 y(x);
  while (static_cast<float>(y) > x) {  // towards minus infinity
    if (y.bits == 0) y.bits = 0x8000;
    y.bits = static_cast<std::uint16_t>(y.bits & 0x8000 ? y.bits + 1 : y.bits - 1);
  }
  return y;
}
BFloat16 bf16_above(double x) {  // of what is not negative
  BFloat16 y(static_cast<float>(x));
  while (static_cast<double>(static_cast<float>(y)) < x) ++y.bits;
  return y;
}

// Where the byte of (row, input) of a group lies.
std::int64_t int8_at(std::int64_t row, std::int64_t k) {
  return (k / kQuad * kQuantRows + row) * kQuad + k % kQuad;
}
std::int64_t int4_at(std::int64_t row, std::int64_t k) { return int8_at(row, k % 32); }

// The codes of up to a group of inputs, from 0 on: `zero` stands for `low`, `most` is the last.
struct Codes {
  std::uint8_t at[kQuantGroup];
};
Codes codes_of(std::span<const float> x, double low, double scale, int zero, int most) {
  Codes codes;
  std::memset(codes.at, zero, sizeof codes.at);
  if (scale == 0) return codes;
  const double last = most;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const double code = std::nearbyint((static_cast<double>(x[k]) - low) / scale) + zero;
    const double kept = code < 0 ? 0 : code > last ? last : code;
    codes.at[k] = static_cast<std::uint8_t>(static_cast<int>(kept));
  }
  return codes;
}

// A row, of which `own` are the blob's.
void put_int8(const QuantizedShape& shape, std::span<const float> whole, std::span<const float> own,
              std::int64_t row, std::uint8_t* block) {
  float largest = 0;
  for (const float w : whole) largest = std::max(largest, std::abs(w));
  float scale = largest / 127;
  while (127.0 * static_cast<double>(scale) < static_cast<double>(largest))
    scale = std::nextafter(scale, std::numeric_limits<float>::infinity());
  store(block + shape.groups() * kInt8Group + row * 4, scale);
  for (std::int64_t g = 0; g < shape.groups(); ++g, block += kInt8Group) {
    const std::int64_t first = g * kQuantGroup;
    const Codes codes = codes_of(
        own.subspan(static_cast<std::size_t>(first),
                    static_cast<std::size_t>(std::min(kQuantGroup, shape.columns - first))),
        0, scale, 128, 255);
    for (std::int64_t k = 0; k < kQuantGroup; k += kQuad)
      std::memcpy(block + int8_at(row, k), codes.at + k, kQuad);
  }
}

// One group of a row.
void put_int4(std::span<const float> group, std::int64_t row, std::uint8_t* to) {
  float least = group[0], most = group[0];
  for (const float w : group) {
    least = w < least ? w : least;
    most = w > most ? w : most;
  }
  const BFloat16 minimum = bf16_below(least);
  const double low = static_cast<float>(minimum);
  const BFloat16 scale = bf16_above((static_cast<double>(most) - low) / 15);
  Codes codes = codes_of(group, low, static_cast<float>(scale), 0, 15);
  for (std::int64_t k = 0; k < 32; ++k)
    codes.at[k] = static_cast<std::uint8_t>(codes.at[k] | codes.at[k + 32] << 4);
  for (std::int64_t k = 0; k < 32; k += kQuad)
    std::memcpy(to + int4_at(row, k), codes.at + k, kQuad);
  store(to + kInt4Codes + row * 2, scale.bits);
  store(to + kInt4Codes + kQuantRows * 2 + row * 2, minimum.bits);
}

float bf16_at(const std::uint8_t* from) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(load<std::uint16_t>(from)) << 16);
}

}  // namespace

std::string_view name_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::kInt8:
      return "int8";
    case WeightFormat::kInt4:
      return "int4 (group 64)";
    default:
      return "plain";
  }
}

void expect_whole_groups(std::string_view what, const QuantizedShape& shape,
                         const QuantizedCut& cut) {
  const std::int64_t end = cut.first_column + shape.columns;
  check(cut.first_column >= 0 && end <= cut.whole_columns, what, ": columns ", cut.first_column,
        " to ", end, " of ", cut.whole_columns);
  check(
      shape.format != WeightFormat::kInt4 || (cut.first_column % kQuantGroup == 0 &&
                                              (end % kQuantGroup == 0 || end == cut.whole_columns)),
      what, ": int4 has one scale for ", kQuantGroup, " inputs, and columns ", cut.first_column,
      " to ", end, " of ", cut.whole_columns, " cut such a group");
}

void quantize_block(const QuantizedShape& shape, const QuantizedCut& cut,
                    std::span<const float> values, std::uint8_t* block) {
  const std::int64_t rows = std::ssize(values) / std::max<std::int64_t>(1, cut.whole_columns);
  const bool int8 = shape.format == WeightFormat::kInt8;
  std::memset(block, int8 ? 128 : 0, static_cast<std::size_t>(shape.block_bytes()));
  if (int8) std::memset(block + shape.groups() * kInt8Group, 0, kQuantRows * sizeof(float));
  for (std::int64_t row = 0; row < std::min(rows, kQuantRows); ++row) {
    const auto whole = values.subspan(static_cast<std::size_t>(row * cut.whole_columns),
                                      static_cast<std::size_t>(cut.whole_columns));
    const auto own = whole.subspan(static_cast<std::size_t>(cut.first_column),
                                   static_cast<std::size_t>(shape.columns));
    if (int8) {
      put_int8(shape, whole, own, row, block);
      continue;
    }
    for (std::int64_t g = 0; g < shape.groups(); ++g) {
      const std::int64_t first = g * kQuantGroup;
      put_int4(own.subspan(static_cast<std::size_t>(first),
                           static_cast<std::size_t>(std::min(kQuantGroup, shape.columns - first))),
               row, block + g * kInt4Group);
    }
  }
}

void dequantize_row(const QuantizedShape& shape, const std::uint8_t* blob, std::int64_t row,
                    float* out) {
  const std::uint8_t* block = blob + row / kQuantRows * shape.block_bytes();
  const std::int64_t lane = row % kQuantRows;
  for (std::int64_t g = 0; g < shape.groups(); ++g) {
    const std::int64_t first = g * kQuantGroup,
                       count = std::min(kQuantGroup, shape.columns - first);
    const float scale = quantized_scale(shape, blob, row, first);
    if (shape.format == WeightFormat::kInt8) {
      const std::uint8_t* codes = block + g * kInt8Group;
      for (std::int64_t k = 0; k < count; ++k)
        out[first + k] =
            scale * static_cast<float>(static_cast<int>(codes[int8_at(lane, k)]) - 128);
      continue;
    }
    const std::uint8_t* codes = block + g * kInt4Group;
    const float minimum = bf16_at(codes + kInt4Codes + kQuantRows * 2 + lane * 2);
    for (std::int64_t k = 0; k < count; ++k) {
      const int byte = codes[int4_at(lane, k)];
      out[first + k] = scale * static_cast<float>(k < 32 ? byte & 15 : byte >> 4) + minimum;
    }
  }
}

float quantized_scale(const QuantizedShape& shape, const std::uint8_t* blob, std::int64_t row,
                      std::int64_t column) {
  const std::uint8_t* block = blob + row / kQuantRows * shape.block_bytes();
  const std::int64_t lane = row % kQuantRows;
  if (shape.format == WeightFormat::kInt8)
    return load<float>(block + shape.groups() * kInt8Group + lane * 4);
  return bf16_at(block + column / kQuantGroup * kInt4Group + kInt4Codes + lane * 2);
}

bool quantizable(double x) { return std::abs(x) < 0x1p126; }  // false for NaN

}  // namespace trireme
