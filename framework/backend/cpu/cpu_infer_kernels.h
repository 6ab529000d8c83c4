// The cpu backend's kernels for inference: operands of f32, bf16 and f16 with f32 sums. Legend and
// rules: framework/backend/infer_kernels.h.
//
// Products read weights as training keeps them, (N, K) by rows, once for a few rows of x, in
// address order: a thread takes neighbouring rows and asks for the next ones while it multiplies.
// In bf16 on a CPU that multiplies it, each output is one sum in a fixed order, whatever the number
// of rows or threads: by matrix tiles (AMX, 32 outputs or more) or by
// vectors, which the shape of W decides. Tiled weights (infer_tiled.cpp) lie in the order of those
// tiles, and one row reads them as fast as memory gives them. In f32, and in types that are only
// storage, this holds for up to 32 rows; more go to oneDNN in pieces of 512, 256, 128 and 64 rows,
// which may round the last digits otherwise (own products of many rows were measured at half of its
// speed), the rest of them not.
//
// Weights of 8 and 4 bits: 16-bit rows of x become bytes, and groups of 64 inputs are summed as
// integers (byte_sums.h, or AMX for many rows), exactly; the groups' sums are added in ascending
// order in f32. So every way gives an output the same bits. f32 rows, and CPUs without AVX2, take
// the weights' values in f32.
//
// A page of keys is (G, words of D, kPageTokens), of values (G, words of kPageTokens, D): words are
// f32, or pairs of bf16 along what the product sums over.
#pragma once

#include <map>

#include "framework/backend/backend.h"
#include "framework/backend/infer_kernels.h"

namespace trireme {

// Does this CPU, and the build, multiply tiles of bytes?
bool has_byte_tiles();

class CpuInferKernels final : public InferKernels {
 public:
  // `bf16`: pairs of bf16 are multiplied, else bf16 is storage; `tiles`: by AMX.
  CpuInferKernels(Backend& owner, Kernels& kernels, int threads, bool bf16, bool tiles)
      : owner_(owner),
        kernels_(kernels),
        threads_(threads),
        bf16_(bf16),
        tiles_(tiles),
        byte_tiles_(tiles && has_byte_tiles()) {}

  void linear(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y) override;
  void linear(const Tensor& x, const QuantizedMatrix& w, const Tensor& bias,
              const Tensor& y) override;
  bool tiles(const Tensor& w) const override;
  void tile(const Tensor& w) override;
  void tiled_linear(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y) override;
  void tiled_lookup(const Tensor& ids, const Tensor& table, std::int64_t first_row,
                    const Tensor& out) override;
  void lookup(const Tensor& ids, const QuantizedMatrix& table, std::int64_t first_row,
              const Tensor& out) override;
  void quantize(const Tensor& values, const QuantizedCut& cut, const QuantizedMatrix& to) override;
  void append(const PagedAttention& a, const Tensor& qkv, const KvPages& pages) override;
  void attention(const PagedAttention& a, const Tensor& qkv, const KvPages& pages,
                 const Tensor& out) override;
  void top(const TopRows& top, const Tensor& logits, const Tensor& words) override;

 private:
  void tile_linear(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y);
  void row_linear(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y);
  void byte_linear(const Tensor& x, const QuantizedMatrix& w, const Tensor& bias, const Tensor& y);
  void wide_linear(const Tensor& x, const QuantizedMatrix& w, const Tensor& bias, const Tensor& y);
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
  bool bf16_, tiles_, byte_tiles_;
  std::map<std::tuple<std::int64_t, double, RopeScaling>, Tensor> rotary_tables_;
};

}  // namespace trireme
