#include "offload/tiled_store.h"

#include <algorithm>
#include <cstdlib>

#include "framework/base/error.h"
#include "offload/tiling.h"

namespace trireme {

namespace {

std::int64_t slot_bytes_of(const TiledShape& shape, std::int64_t elements) {
  return SlotFile::slot_bytes(array_offset(shape, shape.arrays.size(), elements));
}

}  // namespace

void TiledStore::expect_whole() const {
  check(!torn_,
        "offload: this store cannot be used during or after an update that failed: its tiles are "
        "of two steps");
}

std::int64_t TiledStore::home_bytes(const TiledShape& shape, Tier tier) {
  check_shape(shape);
  std::int64_t bytes = 0;
  for (const std::int64_t elements : shape.parts) {
    if (tier == Tier::kDisk) {
      const std::int64_t full = elements / shape.tile, rest = elements % shape.tile;
      if (full > 0) bytes += full * slot_bytes_of(shape, shape.tile);
      if (rest > 0) bytes += slot_bytes_of(shape, rest);
    } else {
      for (const DType dtype : shape.arrays) bytes += elements * size_of(dtype);
    }
  }
  return bytes;
}

std::int64_t TiledStore::buffer_bytes(const TiledShape& shape, Tier tier, int buffers) {
  check_shape(shape);
  std::int64_t longest = 0;
  for (const std::int64_t elements : shape.parts)
    longest = std::max(longest, std::min(elements, shape.tile));
  return tier == Tier::kDisk && longest > 0 ? buffers * slot_bytes_of(shape, longest) : 0;
}

Tensor allocate_on_host(const std::shared_ptr<MemoryLedger>& ledger, Shape shape, DType dtype,
                        MemoryKind kind) {
  const std::int64_t bytes = shape.elements() * size_of(dtype);
  if (bytes == 0)
    return Tensor(std::make_shared<Storage>(nullptr, 0, std::function<void()>()), 0, shape, dtype);
  ledger->add(Tier::kHost, kind, bytes);
  const std::int64_t padded = (bytes + kDiskBlock - 1) / kDiskBlock * kDiskBlock;
  void* data = std::aligned_alloc(kDiskBlock, static_cast<std::size_t>(padded));
  if (data == nullptr) {
    ledger->remove(Tier::kHost, kind, bytes);
    fail("out of memory: the machine has no ", bytes, " bytes left on the host for ", name_of(kind),
         "; in use:\n", ledger->table(Tier::kHost));
  }
  auto storage = make_storage(data, bytes, [data, bytes, kind, ledger] {
    std::free(data);
    ledger->remove(Tier::kHost, kind, bytes);
  });
  return Tensor(std::move(storage), 0, shape, dtype);
}

}  // namespace trireme
