// Weight matrices held in 8 or 4 bits for inference: what the numbers mean and how they lie in
// memory.
//
// A matrix (N outputs, K inputs) is one blob of bytes, of a size that its shape alone decides, so
// it may be cut, copied, sharded and streamed as bytes by whoever knows nothing of it. Outputs are
// taken 16 at a time (a *block*; rows that are missing in the last one are zero), inputs 64 at a
// time (a *group*; missing ones are zero). Within a group four neighbouring inputs of each of the
// 16 outputs follow each other, which is what the CPU's products of bytes (VNNI, AMX) want on their
// right. The blob is read from its begin to its end, scales where they are needed:
//
//   int8   block = groups x [16 quads][16 outputs][4 inputs] u8, then 16 f32 scales.
//          value = scale of the output * (u8 - 128); symmetric: -127 .. 127.
//   int4   block = groups x ([8 quads][16 outputs][4 inputs] u8, 16 bf16 scales, 16 bf16 minima).
//          The low half byte is an input of the group's first 32, the high one of its last 32.
//          value = scale * half byte + minimum; asymmetric, as in ZeRO-Inference (DeepSpeed).
//
// Scales are rounded up and minima down, so |value - w| <= scale / 2 for every weight. 8.1 and 4.5
// bits a weight. What a weight becomes is a function of the whole logical row alone: however a
// matrix is cut over tensor ranks (inputs of int4 between groups only), its values are the same.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "framework/base/tensor.h"

namespace trireme {

enum class WeightFormat : std::uint8_t { kPlain, kInt8, kInt4 };  // plain: the compute type

inline constexpr std::int64_t kQuantRows = 16;    // outputs of a block
inline constexpr std::int64_t kQuantGroup = 64;   // inputs of a group
inline constexpr std::int64_t kQuantAlign = 64;   // bytes; every block is a multiple
inline constexpr std::int64_t kInt8Group = 1024;  // bytes of a group of a block
inline constexpr std::int64_t kInt4Codes = 512;   // of its half bytes, without scales
inline constexpr std::int64_t kInt4Group = 576;

// "int8", "int4 (group 64)"; "plain".
std::string_view name_of(WeightFormat format);

// The shape of a quantized matrix decides the layout of its blob.
struct QuantizedShape {
  WeightFormat format = WeightFormat::kInt8;
  std::int64_t rows = 0, columns = 0;  // N, K

  std::int64_t blocks() const { return (rows + kQuantRows - 1) / kQuantRows; }
  std::int64_t groups() const { return (columns + kQuantGroup - 1) / kQuantGroup; }
  std::int64_t block_bytes() const {
    return format == WeightFormat::kInt8
               ? groups() * kInt8Group + kQuantRows * static_cast<std::int64_t>(sizeof(float))
               : groups() * kInt4Group;
  }
  std::int64_t bytes() const { return blocks() * block_bytes(); }
  bool operator==(const QuantizedShape&) const = default;
};

// A matrix as kernels take it. blob: u8, shape.bytes() elements, on the device, aligned to
// kQuantAlign.
struct QuantizedMatrix {
  QuantizedShape shape;
  Tensor blob;
};

// Which columns of logical rows a blob holds.
struct QuantizedCut {
  std::int64_t whole_columns = 0;  // of the logical matrix
  std::int64_t first_column = 0;   // of the blob's
};
// Error naming `what` where int4 groups would be cut: columns [first, first + columns) of a whole
// row must begin, and unless they are the row's last end, between groups.
void expect_whole_groups(std::string_view what, const QuantizedShape& shape,
                         const QuantizedCut& cut);

// One block on the host: `values` are up to 16 whole logical rows, finite and below 2^126;
// `block` has shape.block_bytes().
void quantize_block(const QuantizedShape& shape, const QuantizedCut& cut,
                    std::span<const float> values, std::uint8_t* block);
// One row of a blob on the host: out has shape.columns elements.
void dequantize_row(const QuantizedShape& shape, const std::uint8_t* blob, std::int64_t row,
                    float* out);
// The step of quantization of an element: |value - w| <= scale / 2.
float quantized_scale(const QuantizedShape& shape, const std::uint8_t* blob, std::int64_t row,
                      std::int64_t column);

// Is x finite and small enough to be quantized?
bool quantizable(double x);

}  // namespace trireme
