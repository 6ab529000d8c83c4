// Shape and type checks of every kernel, in one place, so that all backends refuse the same calls
// with the same words.
//
// Each function takes the operands of the kernel of its name and throws Error with the operation,
// what was expected and what came. They look at shapes and types only, never at elements, and cost
// a few comparisons. A backend calls the check first, then refuses what it cannot compute itself
// (the cpu backend has no f64).
//
// Where kernels.h lets operands mix types, the rule here is one *family*: f64 goes with f64, and
// f32, bf16 and f16 go with each other. "Any floating type" is not restricted to a family. Matrices
// are seen as (rows(), columns()) of the tensor; vectors and flat operands by their element count.
#pragma once

#include "framework/backend/kernels.h"

namespace trireme::kernel_checks {

struct MatmulExtents {
  std::int64_t m = 0, n = 0, k = 0;
};

// The extents of op(a) (M, K) x op(b) (K, N).
MatmulExtents matmul(const Matmul& m);

void add(const Tensor& a, const Tensor& b, const Tensor& out);
void add_bias(const Tensor& bias, const Tensor& out);
void cast(const Tensor& from, const Tensor& to);
void fill(const Tensor& x);
void scale(const Tensor& x);
void dropout(const Dropout& d, const Tensor& x, const Tensor& y);

void embedding(const Tensor& ids, const Tensor& table, const Tensor& out);
void embedding_backward(const Tensor& ids, const Tensor& dy, const Tensor& dtable);
void add_positions(const Tensor& table, const Positions& p, const Tensor& x);
void add_positions_backward(const Tensor& dy, const Positions& p, const Tensor& dtable);

void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y,
                const Tensor& stats);
void layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& stats,
                         const Tensor& dy, const Tensor& dx, const Tensor& dweight,
                         const Tensor& dbias);
void rms_norm(const Tensor& x, const Tensor& weight, const Tensor& y, const Tensor& stats);
void rms_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& stats, const Tensor& dy,
                       const Tensor& dx, const Tensor& dweight);
void head_norm(const HeadNorm& n, const Tensor& qkv, const Tensor& query_weight,
               const Tensor& key_weight, const Tensor& y, const Tensor& stats);
void head_norm_backward(const HeadNorm& n, const Tensor& qkv, const Tensor& query_weight,
                        const Tensor& key_weight, const Tensor& stats, const Tensor& dy,
                        const Tensor& dqkv, const Tensor& dquery_weight, const Tensor& dkey_weight);

void activation(bool gated, const Tensor& x, const Tensor& y);
void activation_backward(bool gated, const Tensor& x, const Tensor& dy, const Tensor& dx);
void column_sum(const Tensor& dy, const Tensor& out);

void rotary(const Rotary& r, const Tensor& x);
void attention(const Attention& a, const Tensor& qkv, const Tensor& out, const Tensor& lse);
void attention_backward(const Attention& a, const Tensor& qkv, const Tensor& out, const Tensor& lse,
                        const Tensor& dout, const Tensor& dqkv);

void row_max(const CrossEntropy& c, const Tensor& logits, const Tensor& max);
void cross_entropy_sums(const CrossEntropy& c, const Tensor& logits, const Tensor& max,
                        const Tensor& labels, const Tensor& sums);
void cross_entropy_loss(const CrossEntropy& c, const Tensor& sums, const Tensor& labels,
                        const Tensor& total);
void cross_entropy_backward(const CrossEntropy& c, const Tensor& logits, const Tensor& max,
                            const Tensor& sums, const Tensor& labels, const Tensor& dlogits);

void sum_of_squares(const Tensor& x, const Tensor& out);
void fingerprint(const Tensor& x, const Tensor& out);
void sum_in_order(std::span<const Tensor> pieces, const Tensor& out);
void max_of(std::span<const Tensor> pieces, const Tensor& out);

void adam(const Tensor& w, const Tensor& m, const Tensor& v, const Tensor& g,
          const Tensor& weights);
void sgd(const SgdStep& s, const Tensor& w, const Tensor& momentum, const Tensor& g,
         const Tensor& weights);

}  // namespace trireme::kernel_checks
