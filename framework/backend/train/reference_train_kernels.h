// Backward directions and optimizers of the reference backend. See reference_backend.h.
#pragma once

#include "framework/backend/kernels.h"

namespace trireme {

class ReferenceTrainKernels final : public TrainKernels {
 public:
  // reference_linear.cpp
  void column_sum(const Tensor& dy, const Tensor& out, bool accumulate) override;
  // reference_activation.cpp
  void activation_backward(Activation act, bool gated, const Tensor& x, const Tensor& dy,
                           const Tensor& dx) override;
  // reference_embedding.cpp
  void embedding_backward(const Tensor& ids, const Tensor& dy, std::int64_t first_row,
                          const Tensor& dtable, bool accumulate) override;
  void add_positions_backward(const Tensor& dy, const Positions& p, const Tensor& dtable,
                              bool accumulate) override;
  // reference_norm.cpp
  void layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& stats,
                           const Tensor& dy, const Tensor& dx, bool accumulate_dx,
                           const Tensor& dweight, const Tensor& dbias, bool accumulate) override;
  void rms_norm_backward(const Tensor& x, const Tensor& weight, const RmsNorm& n,
                         const Tensor& stats, const Tensor& dy, const Tensor& dx,
                         bool accumulate_dx, const Tensor& dweight, bool accumulate) override;
  // reference_norm.cpp
  void head_norm_backward(const HeadNorm& n, const Tensor& qkv, const Tensor& query_weight,
                          const Tensor& key_weight, const Tensor& stats, const Tensor& dy,
                          const Tensor& dqkv, const Tensor& dquery_weight, bool accumulate_query,
                          const Tensor& dkey_weight, bool accumulate_key) override;
  // reference_attention.cpp
  void attention_backward(const Attention& a, const Tensor& qkv, const Tensor& out,
                          const Tensor& lse, const Tensor& dout, const Tensor& dqkv) override;
  // reference_loss.cpp
  void cross_entropy_backward(const CrossEntropy& c, const Tensor& logits, const Tensor& max,
                              const Tensor& sums, const Tensor& labels, double seed,
                              const Tensor& dlogits) override;
  // reference_optimizer.cpp
  void sum_of_squares(const Tensor& x, const Tensor& out) override;
  void fingerprint(const Tensor& x, std::uint64_t key, std::int64_t first, std::uint64_t factor,
                   const Tensor& out) override;
  void adam(const AdamStep& s, const Tensor& w, const Tensor& m, const Tensor& v, const Tensor& g,
            const Tensor& weights) override;
  void sgd(const SgdStep& s, const Tensor& w, const Tensor& momentum, const Tensor& g,
           const Tensor& weights) override;
};

}  // namespace trireme
