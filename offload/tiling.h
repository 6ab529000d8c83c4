// How arrays are cut into tiles, and a tile's arrays into a slot: pure arithmetic, shared by the
// host and the disk store. Internal to offload.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <vector>

#include "offload/tiled_store.h"

namespace trireme {

// Where a tile lies in its part.
struct TilePlace {
  std::size_t part = 0;
  Range range;
};

// Throws Error for a negative part, no arrays or a tile below 1 element.
void check_shape(const TiledShape& shape);

// Throws Error unless the range is inside the part and `memory` is made for it.
void check_access(const TiledShape& shape, const char* operation, std::size_t part,
                  std::size_t array, Range range, const Tensor& memory);

// Tiles in order; none crosses parts, empty parts have none.
void for_each_tile(const TiledShape& shape, const std::function<void(const TilePlace&)>& visit);

// The arrays of a tile of `elements` lie one after the other, each from a multiple of 64 bytes.
// Offset of array `array`; with array == arrays.size(), the bytes of all.
std::int64_t array_offset(const TiledShape& shape, std::size_t array, std::int64_t elements);

// memcpy may not be given null, even for 0 bytes.
inline void copy_bytes(void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace trireme
