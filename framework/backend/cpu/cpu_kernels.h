// The cpu backend's kernels: operands of f32, bf16 and f16 with f32 sums and statistics. Legend and
// rules: framework/backend/kernels.h.
//
// One object per rank, used from the rank's thread; it shares work among `threads` OpenMP threads.
// Every sum has a fixed order: by row, by fixed blocks of rows or elements, or within one task.
// The members are spread over files by subject: matmul, elementwise, norm, activation, embedding,
// rotary, attention, cross_entropy, reduce. What training needs besides is in train/.
#pragma once

#include <map>
#include <utility>

#include "framework/backend/backend.h"
#include "framework/backend/cpu/dnnl_matmul.h"
#include "framework/backend/kernels.h"

namespace trireme {

// Rows [row, row + rows) and columns [column, column + columns) of a matrix.
struct MatrixBlock {
  std::int64_t row, column, rows, columns;
};

class CpuKernels final : public Kernels {
 public:
  CpuKernels(Backend& owner, int threads, bool bf16);

  void matmul(const Matmul& m) override;

  void add(const Tensor& a, const Tensor& b, const Tensor& out) override;
  void add_bias(const Tensor& bias, const Tensor& out) override;
  void cast(const Tensor& from, const Tensor& to) override;
  void fill(const Tensor& x, double value) override;
  void scale(const Tensor& x, double factor) override;
  void dropout(const Dropout& d, const Tensor& x, const Tensor& y) override;

  void embedding(const Tensor& ids, const Tensor& table, std::int64_t first_row,
                 const Tensor& out) override;
  void add_positions(const Tensor& table, const Positions& p, const Tensor& x) override;

  void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                  const Tensor& y, const Tensor& stats) override;
  void rms_norm(const Tensor& x, const Tensor& weight, const RmsNorm& n, const Tensor& y,
                const Tensor& stats) override;
  void head_norm(const HeadNorm& n, const Tensor& qkv, const Tensor& query_weight,
                 const Tensor& key_weight, const Tensor& y, const Tensor& stats) override;

  void activation(Activation act, bool gated, const Tensor& x, const Tensor& y) override;

  void rotary(const Rotary& r, const Tensor& x) override;

  void attention(const Attention& a, const Tensor& qkv, const Tensor& out,
                 const Tensor& lse) override;

  void row_max(const CrossEntropy& c, const Tensor& logits, const Tensor& max) override;
  void cross_entropy_sums(const CrossEntropy& c, const Tensor& logits, const Tensor& max,
                          const Tensor& labels, const Tensor& sums) override;
  void cross_entropy_loss(const CrossEntropy& c, const Tensor& sums, const Tensor& labels,
                          const Tensor& total) override;

  void sum_in_order(std::span<const Tensor> pieces, const Tensor& out) override;
  void max_of(std::span<const Tensor> pieces, const Tensor& out) override;

  // The type in which products of such operands are made: their own, or f32 for 16 bits that are
  // storage on this CPU.
  DType multiplied_as(DType operands) const {
    return operands == DType::kBF16 && bf16_ ? DType::kBF16 : DType::kF32;
  }
  bool matrix_tiles() const { return matrix_tiles_; }  // AMX may be used

 private:
  void run(const MatmulProblem& p, const void* a, const void* b, const void* bias, void* c);
  // Products of f32, of blocks of the operands that are converted into workspace; no extent is 0.
  void converted_matmul(const Matmul& m, MatmulProblem whole);
  void load_block(const Tensor& x, MatrixBlock block, float* to);
  void store_block(const float* from, MatrixBlock block, const Tensor& x);
  // Counted scratch of `count` f32, alive as long as the tensor.
  Tensor floats(std::int64_t count);
  // cos and sin of position * frequency as (positions, D): [cos (D/2) | sin (D/2)] a row, for at
  // least `positions`.
  const float* rotary_table(const Rotary& r, std::int64_t positions);

  Backend& owner_;
  int threads_;
  bool bf16_;  // bf16 is multiplied as it is; else it is storage
  bool matrix_tiles_;
  DnnlMatmul dnnl_;
  Tensor scratch_;  // of the matmul that needs most
  std::map<std::tuple<std::int64_t, double, RopeScaling>, Tensor> rotary_tables_;
};

// Of the same rank; `forward` must outlive it. Null in a build for inference only (no_train.cpp).
std::unique_ptr<TrainKernels> make_cpu_train_kernels(Backend& owner, CpuKernels& forward,
                                                     int threads);

[[noreturn]] void fail_f64(const char* operation);

// Throws Error if one of the tensors is f64.
template <typename... Tensors>
void refuse_f64(const char* operation, const Tensors&... tensors) {
  if (((tensors.defined() && tensors.dtype() == DType::kF64) || ...)) fail_f64(operation);
}

// What RMS norm adds to weights: -0 where nothing is, since it changes the bits of no number.
inline float added_to_weights(const RmsNorm& n) {
  return n.weight_offset == 0 ? -0.0f : static_cast<float>(n.weight_offset);
}

}  // namespace trireme
