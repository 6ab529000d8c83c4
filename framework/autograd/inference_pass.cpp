#include "framework/autograd/inference_pass.h"

#include "framework/backend/host_memory.h"
#include "framework/base/error.h"

namespace trireme {

namespace {

Tensor on_host(Backend& device, Shape shape, DType dtype, MemoryKind kind) {
  const std::int64_t bytes = shape.elements() * size_of(dtype);
  return Tensor(allocate_host(device.shared_ledger(), Tier::kHost, kind, bytes), 0, shape, dtype);
}

}  // namespace

KvCache::KvCache(Backend& backend, const KvCacheOptions& o) : options_(o) {
  check(o.layers >= 0 && o.kv_heads > 0 && o.head_dim > 0 && o.pages > 0, "kv cache: ", o.layers,
        " layers of ", o.kv_heads, " heads of ", o.head_dim, " in ", o.pages, " pages");
  const Shape shape{o.pages, o.kv_heads, kPageTokens * o.head_dim};
  const auto half = [&] {
    return o.host ? on_host(backend, shape, kv_type(o.compute), MemoryKind::kKvCache)
                  : backend.allocate(shape, kv_type(o.compute), MemoryKind::kKvCache);
  };
  for (std::int64_t i = 0; i < o.layers; ++i) layers_.push_back({half(), half()});
}

std::int64_t KvCache::page_bytes(const KvCacheOptions& o) {
  return 2 * o.layers * o.kv_heads * o.head_dim * kPageTokens * size_of(kv_type(o.compute));
}

void InferencePass::attend(Backend& device, const PagedAttention& a, const Tensor& qkv,
                           const Tensor& out) {
  const KvPages& pages = cache_.layer(layer_++);
  Backend* const host = cache_.options().host;
  if (!host) {
    device.infer_kernels()->append(a, qkv, pages);
    return device.infer_kernels()->attention(a, qkv, pages, out);
  }
  const Tensor rows = on_host(device, qkv.shape(), qkv.dtype(), MemoryKind::kCommunication);
  const Tensor result = on_host(device, out.shape(), out.dtype(), MemoryKind::kCommunication);
  device.download(qkv, rows.data());
  host->infer_kernels()->append(a, rows, pages);
  host->infer_kernels()->attention(a, rows, pages, result);
  device.upload(result.data(), out);
}

}  // namespace trireme
