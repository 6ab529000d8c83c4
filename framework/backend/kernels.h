// The operations a device must offer, forward direction: enough for inference.
//
// Legend: R rows = samples x tokens (batch-major: row = sample * T + token), T tokens per sample, C
// channels, F feed-forward width, H query heads, G key/value heads, D head size, V vocabulary, N,
// M, K matrix extents.
//
// Rules for every kernel
//  - Activations are matrices (R, columns), contiguous. Sequence-parallel shards are row slices of
//  them.
//  - Types: "compute" is f64, f32, bf16 or f16; "wide" is f64 for f64 and f32 otherwise. Sums,
//  statistics
//    and softmax are kept in the wide type at least, whatever the operands are. Where operands may
//    mix types it is said.
//  - Output tensors are given and already allocated; an output may alias an input only where that
//  is said.
//  - Shapes and types are checked; a mismatch throws Error with the operation's name and the
//  numbers.
//  - A kernel is deterministic: same operands and thread count, same bits.
//  - A rank's backend is called from that rank's thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "framework/backend/rope.h"
#include "framework/base/random.h"
#include "framework/base/tensor.h"

namespace trireme {

// c (M, N) = op(a) (M, K) x op(b) (K, N) [+ bias (N) on every row] [+ c if accumulate].
// a, b: same compute type. c: that type or the wide one. bias: any floating type, only without
// accumulate. A linear layer y = x W^T + bias has a = x (R, K), b = W (N, K), transpose_b.
struct Matmul {
  Tensor a, b, c;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
  Tensor bias = {};
};

enum class Activation : std::uint8_t { kGeluTanh, kSilu, kRelu };

// Dropout of a matrix: element (r, c) is dropped iff
// random_word(key, (first_row + r) * total_columns + first_column + c) < threshold; kept ones are
// multiplied by `scale` = 1 / (1 - p). The mask therefore does not depend on how rows and columns
// are split over ranks.
struct Dropout {
  RngKey key;
  std::uint32_t threshold = 0;  // dropout_threshold(p)
  double scale = 1.0;
  std::int64_t first_row = 0, first_column = 0, total_columns = 0;
};

// Causal self-attention over packed projections. qkv (B*T, (H + 2G) * D): a row is [H query heads |
// G key heads | G value heads]. Query head h uses key/value head h / (H / G). Scores are scaled by
// `scale` (usually 1 / sqrt(D)). Dropout of probabilities (training): element (query q, key k) of
// sample b, head h has index
// (((first_sample + b) * total_heads + first_head + h) * T + q) * T + k; fields of `dropout` other
// than key, threshold, scale are unused.
struct Attention {
  std::int64_t batch = 0, tokens = 0, heads = 0, kv_heads = 0, head_dim = 0;
  double scale = 1.0;
  std::optional<Dropout> dropout = {};
  std::int64_t first_sample = 0, first_head = 0, total_heads = 0;
  std::int64_t window = 0;  // query i sees keys i - window + 1 .. i; 0 = all up to i
  // (B*T) i32, or undefined: the token of its sample with which a row's document begins. Keys
  // before it are not seen. At most the row's own token, and never less than in the row before.
  Tensor document_starts = {};
};

// Which row of a table of positions belongs to row r of a matrix: the token (first_row + r) %
// tokens
// + first_position, or with document_starts (as in Attention, of all rows; x may be some from
// first_row on) what is left of it behind document_starts[first_row + r].
struct Positions {
  std::int64_t tokens = 0, first_row = 0, first_position = 0;
  Tensor document_starts = {};
};

// Rotates pairs (i, i + D/2) of the first `heads` heads of each row in place by angle position *
// frequency, where frequency = theta^(-2i/D), scaled (the Llama / Hugging Face "half" pairing).
// position of row r = first_position + r % tokens. `inverse` rotates back: the backward pass.
// Angles and products in f64 for f64, f32 otherwise (the angle itself is formed in f64).
struct Rotary {
  std::int64_t tokens = 0, heads = 0, head_dim = 0, first_position = 0;
  double theta = 10000.0;
  RopeScaling scaling = {};
  bool inverse = false;
};

// RMS norm: y = x * rstd * (weight + weight_offset) with rstd = 1 / sqrt(mean(x^2) + eps). An
// offset of 1 is Gemma's form, whose stored weights start at 0.
struct RmsNorm {
  RmsNorm(double e, double offset = 0.0) : eps(e), weight_offset(offset) {}  // NOLINT: eps alone
  double eps, weight_offset;
};

// RMS norm of each query and key head of packed projections, over its D elements: rows as in
// Attention, one weight (D) for all query heads and one for all key heads.
struct HeadNorm {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  double eps = 1e-6;
};

// Vocabulary-parallel cross-entropy, this rank's columns. Column c is token first_column + c;
// columns >= `valid` are padding. Label < 0: the row does not count (loss 0, gradient 0).
struct CrossEntropy {
  std::int64_t first_column = 0;
  std::int64_t valid = 0;  // real columns of this rank (may be 0)
  std::int64_t vocab = 0;  // V, global and unpadded: the denominator of label smoothing
  double smoothing = 0.0;  // PyTorch's: (1-e) nll + e * mean over classes of -log p
};

class Kernels {
 public:
  virtual ~Kernels() = default;

  virtual void matmul(const Matmul& m) = 0;

  // out = a + b, any floating types, computed in the wide type of out. out may alias a or b.
  virtual void add(const Tensor& a, const Tensor& b, const Tensor& out) = 0;
  // out[r, :] += bias. bias: (columns), any floating type.
  virtual void add_bias(const Tensor& bias, const Tensor& out) = 0;
  // to = from, converted (also i32 -> i32, u8 -> u8). Rounds to nearest even.
  virtual void cast(const Tensor& from, const Tensor& to) = 0;
  virtual void fill(const Tensor& x, double value) = 0;
  // x *= factor
  virtual void scale(const Tensor& x, double factor) = 0;
  virtual void dropout(const Dropout& d, const Tensor& x,
                       const Tensor& y) = 0;  // y may alias x; its own backward

  // out (R, C) = row ids[r] - first_row of table (rows, C), or zeros when that is outside [0,
  // rows). ids (R) i32. out: any floating type.
  virtual void embedding(const Tensor& ids, const Tensor& table, std::int64_t first_row,
                         const Tensor& out) = 0;
  // x[r, :] += table[position of r, :]: learned positions. x: any floating type.
  virtual void add_positions(const Tensor& table, const Positions& p, const Tensor& x) = 0;

  // y = (x - mean) * rstd * weight + bias over the columns; stats (R, 2) wide: mean, rstd. x any
  // floating type, y compute.
  virtual void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                          const Tensor& y, const Tensor& stats) = 0;
  // stats (R, 1) wide: rstd.
  virtual void rms_norm(const Tensor& x, const Tensor& weight, const RmsNorm& n, const Tensor& y,
                        const Tensor& stats) = 0;
  // y = qkv with query and key heads normalised, value heads as they are; stats (R, H + G) wide:
  // rstd of each head. y is another tensor than qkv.
  virtual void head_norm(const HeadNorm& n, const Tensor& qkv, const Tensor& query_weight,
                         const Tensor& key_weight, const Tensor& y, const Tensor& stats) = 0;

  // y (R, F) = act(x) for x (R, F); gated: y = act(gate) * up for x (R, 2F) = [gate | up].
  virtual void activation(Activation act, bool gated, const Tensor& x, const Tensor& y) = 0;

  virtual void rotary(const Rotary& r, const Tensor& x) = 0;

  // out (B*T, H*D) compute; lse (B*H, T) wide: natural log of the sum of exp of the scaled scores
  // of each query (before dropout). Never stores T x T.
  virtual void attention(const Attention& a, const Tensor& qkv, const Tensor& out,
                         const Tensor& lse) = 0;

  // max (R) wide = largest of the valid columns, -infinity if there are none. logits (R, columns)
  // compute or wide.
  virtual void row_max(const CrossEntropy& c, const Tensor& logits, const Tensor& max) = 0;
  // sums (R, 3) wide over the valid columns: [sum exp(x - max), x[label] - max if the label is in
  // this shard else 0, sum (x - max)]. max and sums are to be reduced over the tensor ranks by the
  // caller.
  virtual void cross_entropy_sums(const CrossEntropy& c, const Tensor& logits, const Tensor& max,
                                  const Tensor& labels, const Tensor& sums) = 0;
  // total (1) f64 += sum over rows of the loss. sums: reduced over all shards.
  virtual void cross_entropy_loss(const CrossEntropy& c, const Tensor& sums, const Tensor& labels,
                                  const Tensor& total) = 0;

  // out (n) = sum over pieces (n), in the order given, in the wide type (rounded once to out's
  // type). Here and in max_of, out may be one of the pieces (a communicator sums in place).
  virtual void sum_in_order(std::span<const Tensor> pieces, const Tensor& out) = 0;
  // out (n) = elementwise maximum.
  virtual void max_of(std::span<const Tensor> pieces, const Tensor& out) = 0;
};

// What training needs besides: backward directions and the optimizer. Gradients of parameters
// ("d...") are in the wide type or the compute one and are added to when `accumulate`, else
// overwritten (the first use of a step needs no zeroing pass).
struct AdamStep {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay =
      0;          // decoupled (AdamW): applied before the update, w -= lr * weight_decay * w
  double l2 = 0;  // coupled (Adam): g += l2 * w
  double bias1 = 1, bias2 = 1;  // 1 - beta^t with t = optimizer steps taken, this one included
  double gradient_factor = 1;   // clip factor / loss scale: multiplies g first
};

struct SgdStep {
  double lr = 0, momentum = 0,
         weight_decay = 0;  // decay is coupled: g += weight_decay * w (PyTorch's SGD)
  double gradient_factor = 1;
  bool first = false;  // the momentum buffer is g itself at the first step
};

class TrainKernels {
 public:
  virtual ~TrainKernels() = default;

  // dx = (or += if accumulate_dx) the gradient with respect to x; dx wide or compute type. dweight,
  // dbias (C).
  virtual void layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& stats,
                                   const Tensor& dy, const Tensor& dx, bool accumulate_dx,
                                   const Tensor& dweight, const Tensor& dbias, bool accumulate) = 0;
  virtual void rms_norm_backward(const Tensor& x, const Tensor& weight, const RmsNorm& n,
                                 const Tensor& stats, const Tensor& dy, const Tensor& dx,
                                 bool accumulate_dx, const Tensor& dweight, bool accumulate) = 0;
  // dqkv may be dy. dquery_weight, dkey_weight (D).
  virtual void head_norm_backward(const HeadNorm& n, const Tensor& qkv, const Tensor& query_weight,
                                  const Tensor& key_weight, const Tensor& stats, const Tensor& dy,
                                  const Tensor& dqkv, const Tensor& dquery_weight,
                                  bool accumulate_query, const Tensor& dkey_weight,
                                  bool accumulate_key) = 0;
  // dx of activation(act, gated, x, y). dx may alias x.
  virtual void activation_backward(Activation act, bool gated, const Tensor& x, const Tensor& dy,
                                   const Tensor& dx) = 0;
  // out (C) = (or +=) sum over rows of dy (R, C): bias gradients.
  virtual void column_sum(const Tensor& dy, const Tensor& out, bool accumulate) = 0;
  // dtable (rows, C) = (or +=) for each r: dy[r] into row ids[r] - first_row, when inside. Fixed
  // order of additions.
  virtual void embedding_backward(const Tensor& ids, const Tensor& dy, std::int64_t first_row,
                                  const Tensor& dtable, bool accumulate) = 0;
  virtual void add_positions_backward(const Tensor& dy, const Positions& p, const Tensor& dtable,
                                      bool accumulate) = 0;
  // dqkv like qkv, overwritten. out, lse: from the forward pass. Dropout masks are made again from
  // the key.
  virtual void attention_backward(const Attention& a, const Tensor& qkv, const Tensor& out,
                                  const Tensor& lse, const Tensor& dout, const Tensor& dqkv) = 0;
  // dlogits (R, columns) = seed * (softmax - (1 - e) * onehot - e / V), 0 for padding columns and
  // labels < 0. max, sums: reduced over all shards. dlogits may alias logits when the types agree.
  virtual void cross_entropy_backward(const CrossEntropy& c, const Tensor& logits,
                                      const Tensor& max, const Tensor& sums, const Tensor& labels,
                                      double seed, const Tensor& dlogits) = 0;

  // out (2) f64: out[0] += number of non-finite elements of x, out[1] += sum of squares in f64, in
  // a fixed order that depends on the element count only.
  virtual void sum_of_squares(const Tensor& x, const Tensor& out) = 0;
  // out (2) f64, a 64-bit number as [low 32 bits, high 32 bits], both whole: it becomes out +
  // factor * fingerprint of x modulo 2^64. x: any type, by its bits, elements `first`, first + 1,
  // ... of the array that `key` names. The same number on every backend and however an array is
  // cut (framework/backend/fingerprint.h).
  virtual void fingerprint(const Tensor& x, std::uint64_t key, std::int64_t first,
                           std::uint64_t factor, const Tensor& out) = 0;

  // One Adam(W) update in place of master w, moments m, v (all wide, n elements) from gradient g
  // (any floating type); when `weights` is defined, writes the rounded w into it (compute type) in
  // the same pass. Elementwise and correctly rounded in a fixed sequence (fma, mul, div, sqrt), so
  // any split of the range into tiles gives the same bits on every backend.
  virtual void adam(const AdamStep& s, const Tensor& w, const Tensor& m, const Tensor& v,
                    const Tensor& g, const Tensor& weights) = 0;
  // momentum may be undefined when s.momentum == 0.
  virtual void sgd(const SgdStep& s, const Tensor& w, const Tensor& momentum, const Tensor& g,
                   const Tensor& weights) = 0;
};

}  // namespace trireme
