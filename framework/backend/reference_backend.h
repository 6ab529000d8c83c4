// The reference backend: plain loops on one thread, the oracle that every other backend is compared
// with and the one that sanitizer builds run.
//
// Every kernel computes in the wide type W of its operands (double for f64, float otherwise);
// 16-bit operands are converted on the way in and rounded once on the way out. Tests derive from
// ReferenceBackend to put its memory elsewhere.
#pragma once

#include "framework/backend/backend.h"
#include "framework/backend/infer_kernels.h"

namespace trireme {

class ReferenceKernels final : public Kernels {
 public:
  // reference_linear.cpp
  void matmul(const Matmul& m) override;
  void add_bias(const Tensor& bias, const Tensor& out) override;
  // reference_elementwise.cpp
  void add(const Tensor& a, const Tensor& b, const Tensor& out) override;
  void cast(const Tensor& from, const Tensor& to) override;
  void fill(const Tensor& x, double value) override;
  void scale(const Tensor& x, double factor) override;
  void dropout(const Dropout& d, const Tensor& x, const Tensor& y) override;
  void activation(Activation act, bool gated, const Tensor& x, const Tensor& y) override;
  // reference_embedding.cpp
  void embedding(const Tensor& ids, const Tensor& table, std::int64_t first_row,
                 const Tensor& out) override;
  void add_positions(const Tensor& table, const Positions& p, const Tensor& x) override;
  void rotary(const Rotary& r, const Tensor& x) override;
  // reference_norm.cpp
  void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                  const Tensor& y, const Tensor& stats) override;
  void rms_norm(const Tensor& x, const Tensor& weight, const RmsNorm& n, const Tensor& y,
                const Tensor& stats) override;
  // reference_head_norm.cpp
  void head_norm(const HeadNorm& n, const Tensor& qkv, const Tensor& query_weight,
                 const Tensor& key_weight, const Tensor& y, const Tensor& stats) override;
  // reference_attention.cpp
  void attention(const Attention& a, const Tensor& qkv, const Tensor& out,
                 const Tensor& lse) override;
  // reference_loss.cpp
  void row_max(const CrossEntropy& c, const Tensor& logits, const Tensor& max) override;
  void cross_entropy_sums(const CrossEntropy& c, const Tensor& logits, const Tensor& max,
                          const Tensor& labels, const Tensor& sums) override;
  void cross_entropy_loss(const CrossEntropy& c, const Tensor& sums, const Tensor& labels,
                          const Tensor& total) override;
  // reference_sums.cpp
  void sum_in_order(std::span<const Tensor> pieces, const Tensor& out) override;
  void max_of(std::span<const Tensor> pieces, const Tensor& out) override;
};

// Of this backend; null in a build for inference only (no_train.cpp).
std::unique_ptr<TrainKernels> make_reference_train_kernels();

// reference_infer.cpp, reference_quantized.cpp. A page is (G, kPageTokens, D).
class ReferenceInferKernels final : public InferKernels {
 public:
  explicit ReferenceInferKernels(Kernels& kernels) : kernels_(kernels) {}
  void linear(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y) override;
  void linear(const Tensor& x, const QuantizedMatrix& w, const Tensor& bias,
              const Tensor& y) override;
  void lookup(const Tensor& ids, const QuantizedMatrix& table, std::int64_t first_row,
              const Tensor& out) override;
  void quantize(const Tensor& values, const QuantizedCut& cut, const QuantizedMatrix& to) override;
  void append(const PagedAttention& a, const Tensor& qkv, const KvPages& pages) override;
  void attention(const PagedAttention& a, const Tensor& qkv, const KvPages& pages,
                 const Tensor& out) override;

 private:
  Kernels& kernels_;
};

class ReferenceBackend : public Backend {
 public:
  using Backend::Backend;
  std::string_view name() const override { return "reference"; }
  bool computes(DType dtype) const override { return is_floating(dtype); }
  std::byte* host_address(const Tensor& t) const override {
    return static_cast<std::byte*>(t.data());
  }

 protected:
  std::shared_ptr<Storage> do_allocate(std::int64_t bytes, MemoryKind kind) override;
  Kernels& do_kernels() override { return kernels_; }
  TrainKernels& do_train_kernels() override { return existing(train_kernels_); }
  InferKernels& do_infer_kernels() override { return infer_kernels_; }

 private:
  ReferenceKernels kernels_;
  ReferenceInferKernels infer_kernels_{kernels_};
  std::unique_ptr<TrainKernels> train_kernels_ = make_reference_train_kernels();
};

}  // namespace trireme
