// The cpu backend's kernels: operands of f32, bf16 and f16 with f32 sums and statistics. Legend and
// rules: framework/backend/kernels.h.
//
// One object per rank, used from the rank's thread; it shares work among `threads` OpenMP threads.
// Every sum has a fixed order: by row, by fixed blocks of rows or elements, or within one task.
// The members are spread over files by subject: matmul, elementwise, norm, activation, embedding,
// rotary, attention, cross_entropy, reduce, optimizer.
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

class CpuKernels final : public Kernels, public TrainKernels {
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
  void embedding_backward(const Tensor& ids, const Tensor& dy, std::int64_t first_row,
                          const Tensor& dtable, bool accumulate) override;
  void add_positions_backward(const Tensor& dy, const Positions& p, const Tensor& dtable,
                              bool accumulate) override;

  void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                  const Tensor& y, const Tensor& stats) override;
  void rms_norm(const Tensor& x, const Tensor& weight, const RmsNorm& n, const Tensor& y,
                const Tensor& stats) override;
  void head_norm(const HeadNorm& n, const Tensor& qkv, const Tensor& query_weight,
                 const Tensor& key_weight, const Tensor& y, const Tensor& stats) override;
  void layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& stats,
                           const Tensor& dy, const Tensor& dx, bool accumulate_dx,
                           const Tensor& dweight, const Tensor& dbias, bool accumulate) override;
  void rms_norm_backward(const Tensor& x, const Tensor& weight, const RmsNorm& n,
                         const Tensor& stats, const Tensor& dy, const Tensor& dx,
                         bool accumulate_dx, const Tensor& dweight, bool accumulate) override;
  void head_norm_backward(const HeadNorm& n, const Tensor& qkv, const Tensor& query_weight,
                          const Tensor& key_weight, const Tensor& stats, const Tensor& dy,
                          const Tensor& dqkv, const Tensor& dquery_weight, bool accumulate_query,
                          const Tensor& dkey_weight, bool accumulate_key) override;

  void activation(Activation act, bool gated, const Tensor& x, const Tensor& y) override;
  void activation_backward(Activation act, bool gated, const Tensor& x, const Tensor& dy,
                           const Tensor& dx) override;

  void rotary(const Rotary& r, const Tensor& x) override;

  void attention(const Attention& a, const Tensor& qkv, const Tensor& out,
                 const Tensor& lse) override;
  void attention_backward(const Attention& a, const Tensor& qkv, const Tensor& out,
                          const Tensor& lse, const Tensor& dout, const Tensor& dqkv) override;

  void row_max(const CrossEntropy& c, const Tensor& logits, const Tensor& max) override;
  void cross_entropy_sums(const CrossEntropy& c, const Tensor& logits, const Tensor& max,
                          const Tensor& labels, const Tensor& sums) override;
  void cross_entropy_loss(const CrossEntropy& c, const Tensor& sums, const Tensor& labels,
                          const Tensor& total) override;
  void cross_entropy_backward(const CrossEntropy& c, const Tensor& logits, const Tensor& max,
                              const Tensor& sums, const Tensor& labels, double seed,
                              const Tensor& dlogits) override;

  void column_sum(const Tensor& dy, const Tensor& out, bool accumulate) override;
  void sum_of_squares(const Tensor& x, const Tensor& out) override;
  void fingerprint(const Tensor& x, std::uint64_t key, std::int64_t first, std::uint64_t factor,
                   const Tensor& out) override;
  void sum_in_order(std::span<const Tensor> pieces, const Tensor& out) override;
  void max_of(std::span<const Tensor> pieces, const Tensor& out) override;

  void adam(const AdamStep& s, const Tensor& w, const Tensor& m, const Tensor& v, const Tensor& g,
            const Tensor& weights) override;
  void sgd(const SgdStep& s, const Tensor& w, const Tensor& momentum, const Tensor& g,
           const Tensor& weights) override;

 private:
  // The type in which products of such operands are made: their own, or f32 for 16 bits that are
  // storage on this CPU.
  DType multiplied_as(DType operands) const {
    return operands == DType::kBF16 && bf16_ ? DType::kBF16 : DType::kF32;
  }
  void run(const MatmulProblem& p, const void* a, const void* b, const void* bias, void* c);
  // Products of f32, of blocks of the operands that are converted into workspace; no extent is 0.
  void converted_matmul(const Matmul& m, MatmulProblem whole);
  void load_block(const Tensor& x, MatrixBlock block, float* to);
  void store_block(const float* from, MatrixBlock block, const Tensor& x);
  // Counted scratch of `count` f32, alive as long as the tensor.
  Tensor floats(std::int64_t count);
  // out[c] = (or +=) sum over i of partials[i * stride + c], in order of i.
  void add_partials(const float* partials, std::int64_t count, std::int64_t stride,
                    const Tensor& out, bool accumulate);
  // cos and sin of position * frequency as (positions, D): [cos (D/2) | sin (D/2)] a row, for at
  // least `positions`.
  const float* rotary_table(const Rotary& r, std::int64_t positions);

  Backend& owner_;
  int threads_;
  bool bf16_;          // bf16 is multiplied as it is; else it is storage
  bool matrix_tiles_;  // AMX may be used
  DnnlMatmul dnnl_;
  Tensor scratch_;  // of the matmul that needs most
  std::map<std::tuple<std::int64_t, double, RopeScaling>, Tensor> rotary_tables_;
};

[[noreturn]] void fail_f64(const char* operation);

// Throws Error if one of the tensors is f64.
template <typename... Tensors>
void refuse_f64(const char* operation, const Tensors&... tensors) {
  if (((tensors.defined() && tensors.dtype() == DType::kF64) || ...)) fail_f64(operation);
}

// Rows are summed over in this many blocks, whatever the number of threads: block i holds rows
// [rows * i / blocks, rows * (i + 1) / blocks).
std::int64_t row_blocks(std::int64_t rows);

}  // namespace trireme
