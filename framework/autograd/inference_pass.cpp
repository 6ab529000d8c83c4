#include "framework/autograd/inference_pass.h"

#include "framework/base/error.h"

namespace trireme {

KvCache::KvCache(Backend& backend, const KvCacheOptions& o) : options_(o) {
  check(o.layers >= 0 && o.kv_heads > 0 && o.head_dim > 0 && o.pages > 0, "kv cache: ", o.layers,
        " layers of ", o.kv_heads, " heads of ", o.head_dim, " in ", o.pages, " pages");
  const Shape shape{o.pages, o.kv_heads, kPageTokens * o.head_dim};
  const auto half = [&] { return backend.zeros(shape, kv_type(o.compute), MemoryKind::kKvCache); };
  for (std::int64_t i = 0; i < o.layers; ++i) layers_.push_back({half(), half()});
}

std::int64_t KvCache::page_bytes(const KvCacheOptions& o) {
  return 2 * o.layers * o.kv_heads * o.head_dim * kPageTokens * size_of(kv_type(o.compute));
}

}  // namespace trireme
