#include "offload/tiling.h"

#include <algorithm>

#include "framework/backend/host_memory.h"
#include "framework/base/error.h"

namespace trireme {

void check_shape(const TiledShape& shape) {
  check(shape.tile >= 1, "offload: a tile of ", shape.tile, " elements; at least 1 is needed");
  check(!shape.arrays.empty(), "offload: a store without arrays");
  for (std::size_t i = 0; i < shape.parts.size(); ++i)
    check(shape.parts[i] >= 0, "offload: part ", i, " has ", shape.parts[i], " elements");
}

void check_access(const TiledShape& shape, const char* operation, std::size_t part,
                  std::size_t array, Range range, const Tensor& memory) {
  check(part < shape.parts.size() && array < shape.arrays.size(), "offload: ", operation,
        " of part ", part, ", array ", array, "; the store has ", shape.parts.size(), " and ",
        shape.arrays.size());
  check(range.begin >= 0 && range.begin <= range.end && range.end <= shape.parts[part],
        "offload: ", operation, " of elements ", range.begin, " to ", range.end, " of part ", part,
        ", which has ", shape.parts[part]);
  check(memory.defined() && memory.elements() == range.size() &&
            memory.dtype() == shape.arrays[array],
        "offload: ", operation, " of ", range.size(), " elements of ", name_of(shape.arrays[array]),
        ", but the tensor has ", memory.elements(), " of ", name_of(memory.dtype()));
}

void for_each_tile(const TiledShape& shape, const std::function<void(const TilePlace&)>& visit) {
  for (std::size_t part = 0; part < shape.parts.size(); ++part)
    for (std::int64_t begin = 0; begin < shape.parts[part];) {
      const std::int64_t end = begin + std::min(shape.tile, shape.parts[part] - begin);
      visit({part, {begin, end}});
      begin = end;
    }
}

std::int64_t array_offset(const TiledShape& shape, std::size_t array, std::int64_t elements) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < array; ++i)
    offset += (elements * size_of(shape.arrays[i]) + kAlignment - 1) / kAlignment * kAlignment;
  return offset;
}

}  // namespace trireme
