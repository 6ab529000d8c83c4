// The cpu backend's kernels for inference: operands of f32, bf16 and f16 with f32 sums. Legend and
// rules: framework/backend/infer_kernels.h.
//
// Products read weights as training keeps them, (N, K) by rows, once, in address order: a thread
// takes neighbouring rows and asks for the next ones while it multiplies. Each output is one sum in
// ascending k, whatever the number of rows or threads, as long as this file's products make it:
// with matrix tiles (AMX) always, else up to kOwnRows rows; more go to oneDNN in pieces of
// 64, 128, 256 and 512 rows, the rest of them not.
//
// A page of keys is (G, words of D, kPageTokens), of values (G, words of kPageTokens, D): words are
// f32, or pairs of bf16 along what the product sums over.
#pragma once

#include <map>

#include "framework/backend/backend.h"
#include "framework/backend/infer_kernels.h"

namespace trireme {

class CpuInferKernels final : public InferKernels {
 public:
  // `bf16`: pairs of bf16 are multiplied, else bf16 is storage; `tiles`: by AMX.
  CpuInferKernels(Backend& owner, Kernels& kernels, int threads, bool bf16, bool tiles)
      : owner_(owner), kernels_(kernels), threads_(threads), bf16_(bf16), tiles_(tiles) {}

  void linear(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y) override;
  void append(const PagedAttention& a, const Tensor& qkv, const KvPages& pages) override;
  void attention(const PagedAttention& a, const Tensor& qkv, const KvPages& pages,
                 const Tensor& out) override;

 private:
  void tile_linear(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y);
  void row_linear(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y);
  // Sequences of few rows: one task a row, key/value head and span of positions.
  void decode(const PagedAttention& a, const Tensor& qkv, const KvPages& pages, const Tensor& out);
  // Sequences of many rows: blocks of 64 queries by 64 keys.
  void prefill(const PagedAttention& a, const Tensor& qkv, const KvPages& pages, const Tensor& out);
  Tensor scratch(std::int64_t bytes) {
    return owner_.allocate({bytes}, DType::kU8, MemoryKind::kWorkspace);
  }
  // (positions, D): [cos (D/2) | sin (D/2)] a row.
  const float* rotary_table(const PagedAttention& a, std::int64_t positions);

  Backend& owner_;
  Kernels& kernels_;
  int threads_;
  bool bf16_, tiles_;
  std::map<std::tuple<std::int64_t, double, RopeScaling>, Tensor> rotary_tables_;
};

}  // namespace trireme
