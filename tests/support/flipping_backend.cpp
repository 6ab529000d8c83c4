#include "tests/support/flipping_backend.h"

#include "framework/backend/train/reference_train_kernels.h"

namespace trireme::test {

namespace {

class FlippingKernels final : public Kernels {
 public:
  explicit FlippingKernels(const AfterKernel& after) : after_(after) {}

  void matmul(const Matmul& m) override {
    right_.matmul(m);
    after_(m.transpose_a ? "weight gradient" : "matmul", m.c);
  }
  void add(const Tensor& a, const Tensor& b, const Tensor& out) override {
    right_.add(a, b, out);
    after_("add", out);
  }
  void add_bias(const Tensor& bias, const Tensor& out) override {
    right_.add_bias(bias, out);
    after_("add_bias", out);
  }
  void cast(const Tensor& from, const Tensor& to) override { right_.cast(from, to); }
  void fill(const Tensor& x, double value) override { right_.fill(x, value); }
  void scale(const Tensor& x, double factor) override { right_.scale(x, factor); }
  void dropout(const Dropout& d, const Tensor& x, const Tensor& y) override {
    right_.dropout(d, x, y);
  }
  void embedding(const Tensor& ids, const Tensor& table, std::int64_t first_row,
                 const Tensor& out) override {
    right_.embedding(ids, table, first_row, out);
    after_("embedding", out);
  }
  void add_positions(const Tensor& table, const Positions& p, const Tensor& x) override {
    right_.add_positions(table, p, x);
  }
  void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                  const Tensor& y, const Tensor& stats) override {
    right_.layer_norm(x, weight, bias, eps, y, stats);
    after_("norm", y);
  }
  void rms_norm(const Tensor& x, const Tensor& weight, const RmsNorm& n, const Tensor& y,
                const Tensor& stats) override {
    right_.rms_norm(x, weight, n, y, stats);
    after_("norm", y);
  }
  void head_norm(const HeadNorm& n, const Tensor& qkv, const Tensor& query_weight,
                 const Tensor& key_weight, const Tensor& y, const Tensor& stats) override {
    right_.head_norm(n, qkv, query_weight, key_weight, y, stats);
    after_("norm", y);
  }
  void activation(Activation act, bool gated, const Tensor& x, const Tensor& y) override {
    right_.activation(act, gated, x, y);
    after_("activation", y);
  }
  void rotary(const Rotary& r, const Tensor& x) override { right_.rotary(r, x); }
  void attention(const Attention& a, const Tensor& qkv, const Tensor& out,
                 const Tensor& lse) override {
    right_.attention(a, qkv, out, lse);
    after_("attention", out);
  }
  void row_max(const CrossEntropy& c, const Tensor& logits, const Tensor& max) override {
    right_.row_max(c, logits, max);
  }
  void cross_entropy_sums(const CrossEntropy& c, const Tensor& logits, const Tensor& max,
                          const Tensor& labels, const Tensor& sums) override {
    right_.cross_entropy_sums(c, logits, max, labels, sums);
  }
  void cross_entropy_loss(const CrossEntropy& c, const Tensor& sums, const Tensor& labels,
                          const Tensor& total) override {
    right_.cross_entropy_loss(c, sums, labels, total);
  }
  void sum_in_order(std::span<const Tensor> pieces, const Tensor& out) override {
    right_.sum_in_order(pieces, out);
    after_("sum", out);
  }
  void max_of(std::span<const Tensor> pieces, const Tensor& out) override {
    right_.max_of(pieces, out);
  }

 private:
  const AfterKernel& after_;
  ReferenceKernels right_;
};

class FlippingTrainKernels final : public TrainKernels {
 public:
  explicit FlippingTrainKernels(const AfterKernel& after) : after_(after) {}

  void layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& stats,
                           const Tensor& dy, const Tensor& dx, bool accumulate_dx,
                           const Tensor& dweight, const Tensor& dbias, bool accumulate) override {
    right_.layer_norm_backward(x, weight, stats, dy, dx, accumulate_dx, dweight, dbias, accumulate);
    after_("norm gradient", dweight);
  }
  void rms_norm_backward(const Tensor& x, const Tensor& weight, const RmsNorm& n,
                         const Tensor& stats, const Tensor& dy, const Tensor& dx,
                         bool accumulate_dx, const Tensor& dweight, bool accumulate) override {
    right_.rms_norm_backward(x, weight, n, stats, dy, dx, accumulate_dx, dweight, accumulate);
    after_("norm gradient", dweight);
  }
  void head_norm_backward(const HeadNorm& n, const Tensor& qkv, const Tensor& query_weight,
                          const Tensor& key_weight, const Tensor& stats, const Tensor& dy,
                          const Tensor& dqkv, const Tensor& dquery_weight, bool accumulate_query,
                          const Tensor& dkey_weight, bool accumulate_key) override {
    right_.head_norm_backward(n, qkv, query_weight, key_weight, stats, dy, dqkv, dquery_weight,
                              accumulate_query, dkey_weight, accumulate_key);
    after_("norm gradient", dquery_weight);
    after_("norm gradient", dkey_weight);
  }
  void activation_backward(Activation act, bool gated, const Tensor& x, const Tensor& dy,
                           const Tensor& dx) override {
    right_.activation_backward(act, gated, x, dy, dx);
  }
  void column_sum(const Tensor& dy, const Tensor& out, bool accumulate) override {
    right_.column_sum(dy, out, accumulate);
    after_("bias gradient", out);
  }
  void embedding_backward(const Tensor& ids, const Tensor& dy, std::int64_t first_row,
                          const Tensor& dtable, bool accumulate) override {
    right_.embedding_backward(ids, dy, first_row, dtable, accumulate);
    after_("embedding gradient", dtable);
  }
  void add_positions_backward(const Tensor& dy, const Positions& p, const Tensor& dtable,
                              bool accumulate) override {
    right_.add_positions_backward(dy, p, dtable, accumulate);
  }
  void attention_backward(const Attention& a, const Tensor& qkv, const Tensor& out,
                          const Tensor& lse, const Tensor& dout, const Tensor& dqkv) override {
    right_.attention_backward(a, qkv, out, lse, dout, dqkv);
  }
  void cross_entropy_backward(const CrossEntropy& c, const Tensor& logits, const Tensor& max,
                              const Tensor& sums, const Tensor& labels, double seed,
                              const Tensor& dlogits) override {
    right_.cross_entropy_backward(c, logits, max, sums, labels, seed, dlogits);
  }
  void sum_of_squares(const Tensor& x, const Tensor& out) override {
    right_.sum_of_squares(x, out);
  }
  void fingerprint(const Tensor& x, std::uint64_t key, std::int64_t first, std::uint64_t factor,
                   const Tensor& out) override {
    right_.fingerprint(x, key, first, factor, out);
  }
  void adam(const AdamStep& s, const Tensor& w, const Tensor& m, const Tensor& v, const Tensor& g,
            const Tensor& weights) override {
    right_.adam(s, w, m, v, g, weights);
    after_("adam value", w);
    after_("adam exp_avg", m);
    after_("adam exp_avg_sq", v);
  }
  void sgd(const SgdStep& s, const Tensor& w, const Tensor& momentum, const Tensor& g,
           const Tensor& weights) override {
    right_.sgd(s, w, momentum, g, weights);
  }

 private:
  const AfterKernel& after_;
  ReferenceTrainKernels right_;
};

class FlippingBackend final : public ReferenceBackend {
 public:
  FlippingBackend(std::shared_ptr<MemoryLedger> ledger, AfterKernel after)
      : ReferenceBackend(std::move(ledger)), after_(std::move(after)) {}
  std::string_view name() const override { return "flipping"; }

 protected:
  Kernels& do_kernels() override { return kernels_; }
  TrainKernels& do_train_kernels() override { return train_kernels_; }

 private:
  AfterKernel after_;
  FlippingKernels kernels_{after_};
  FlippingTrainKernels train_kernels_{after_};
};

}  // namespace

std::unique_ptr<Backend> make_flipping_backend(std::shared_ptr<MemoryLedger> ledger,
                                               AfterKernel after) {
  return std::make_unique<FlippingBackend>(std::move(ledger), std::move(after));
}

void flip_bit(const Tensor& x, std::int64_t element, int bit) {
  auto* bytes = static_cast<unsigned char*>(x.data()) + element * size_of(x.dtype());
  bytes[bit / 8] ^= static_cast<unsigned char>(1u << (bit % 8));
}

}  // namespace trireme::test
