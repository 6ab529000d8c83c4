// What one pass of an inference-only model knows besides its rows: which sequence each belongs to,
// and where keys and values of earlier positions lie.
//
// A KvCache is one rank's pages of all attention layers of its stage, in the compute dtype, counted
// as kv_cache, on device or host. Page p of a layer belongs to the same positions of a sequence as
// page p of all others, so one block table serves all layers. Who owns which page is decided in
// recipes/serve/page_pool.h.
//
// One rank's thread.
#pragma once

#include <vector>

#include "framework/backend/backend.h"
#include "framework/backend/infer_kernels.h"

namespace trireme {

struct KvCacheOptions {
  std::int64_t layers = 0;                  // of this stage
  std::int64_t kv_heads = 0, head_dim = 0;  // of this tensor rank
  std::int64_t pages = 0;
  DType compute = DType::kF32;
  // Set: pages are memory of the host, and this backend, which works on it, attends over them
  // (arXiv 2303.06865, section 4.2: then queries move, not the cache).
  Backend* host = nullptr;
};

class KvCache {
 public:
  // Pages hold nothing yet, and take memory as they are used. Throws Error when the ledger's limit
  // would be exceeded.
  KvCache(Backend& backend, const KvCacheOptions& options);
  const KvCacheOptions& options() const { return options_; }
  const KvPages& layer(std::size_t index) const { return layers_.at(index); }
  // Of one page in all layers.
  static std::int64_t page_bytes(const KvCacheOptions& options);

 private:
  KvCacheOptions options_;
  std::vector<KvPages> layers_;
};

// Rows of which the likeliest `count` ids below `ids` are wanted, with sums or not (top_rows.h).
struct WantedTop {
  std::vector<std::int64_t> rows = {};  // ascending
  std::int64_t count = 1;
  std::int64_t ids = 0;
  bool sums = false;
};

class InferencePass {
 public:
  // Sequences cover the rows of the pass one after the other; their page lists must live as long.
  // `logit_rows`: rows whose logits are wanted, ascending.
  InferencePass(KvCache& cache, std::vector<PagedSequence> sequences,
                std::vector<std::int64_t> logit_rows, WantedTop wanted_top = {})
      : cache_(cache),
        sequences_(std::move(sequences)),
        logit_rows_(std::move(logit_rows)),
        wanted_top_(std::move(wanted_top)) {}

  std::span<const PagedSequence> sequences() const { return sequences_; }
  const std::vector<std::int64_t>& logit_rows() const { return logit_rows_; }
  const WantedTop& wanted_top() const { return wanted_top_; }
  // Appends the rows' keys and values to the pages of the next attention layer, and attends: layers
  // run in the order of the list, each once. qkv and out are tensors of `device`; with a cache on
  // the host they are copied there and back.
  void attend(Backend& device, const PagedAttention& a, const Tensor& qkv, const Tensor& out);

  // The head's: logits (t * rows wanted, V' / t) wide, tensor rank after tensor rank; undefined if
  // no row was wanted or the head is on another stage.
  Tensor logits;
  // Likewise the records (t * rows, words) i32 of wanted_top().
  Tensor top;

 private:
  KvCache& cache_;
  std::vector<PagedSequence> sequences_;
  std::vector<std::int64_t> logit_rows_;
  WantedTop wanted_top_;
  std::size_t layer_ = 0;
};

}  // namespace trireme
