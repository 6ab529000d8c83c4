// Backward directions and optimizers of the cpu backend. Rules: cpu_kernels.h.
#pragma once

#include "framework/backend/cpu/cpu_kernels.h"

namespace trireme {

class CpuTrainKernels final : public TrainKernels {
 public:
  // `forward` must outlive it.
  CpuTrainKernels(Backend& owner, CpuKernels& forward, int threads)
      : owner_(owner), forward_(forward), threads_(threads) {}

  void embedding_backward(const Tensor& ids, const Tensor& dy, std::int64_t first_row,
                          const Tensor& dtable, bool accumulate) override;
  void add_positions_backward(const Tensor& dy, const Positions& p, const Tensor& dtable,
                              bool accumulate) override;

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

  void activation_backward(Activation act, bool gated, const Tensor& x, const Tensor& dy,
                           const Tensor& dx) override;

  void attention_backward(const Attention& a, const Tensor& qkv, const Tensor& out,
                          const Tensor& lse, const Tensor& dout, const Tensor& dqkv) override;

  void cross_entropy_backward(const CrossEntropy& c, const Tensor& logits, const Tensor& max,
                              const Tensor& sums, const Tensor& labels, double seed,
                              const Tensor& dlogits) override;

  void column_sum(const Tensor& dy, const Tensor& out, bool accumulate) override;
  void sum_of_squares(const Tensor& x, const Tensor& out) override;
  void fingerprint(const Tensor& x, std::uint64_t key, std::int64_t first, std::uint64_t factor,
                   const Tensor& out) override;

  void adam(const AdamStep& s, const Tensor& w, const Tensor& m, const Tensor& v, const Tensor& g,
            const Tensor& weights) override;
  void sgd(const SgdStep& s, const Tensor& w, const Tensor& momentum, const Tensor& g,
           const Tensor& weights) override;

 private:
  // Counted scratch of `count` f32, alive as long as the tensor.
  Tensor floats(std::int64_t count);
  // out[c] = (or +=) sum over i of partials[i * stride + c], in order of i.
  void add_partials(const float* partials, std::int64_t count, std::int64_t stride,
                    const Tensor& out, bool accumulate);

  Backend& owner_;
  CpuKernels& forward_;
  int threads_;
};

// Rows are summed over in this many blocks, whatever the number of threads: block i holds rows
// [rows * i / blocks, rows * (i + 1) / blocks).
std::int64_t row_blocks(std::int64_t rows);

}  // namespace trireme
