// Checks of norms, attention and the loss. Legend: see kernels.h.
#include "framework/backend/kernel_checks.h"
#include "framework/backend/kernel_checks_parts.h"

namespace trireme::kernel_checks {

namespace {

// A norm's operands except bias; `numbers` statistics a row.
void norm(std::string_view op, const Tensor& x, const Tensor& weight, const Tensor& y,
          std::string_view y_name, const Tensor& stats, std::int64_t numbers) {
  floating(op, "x", x);
  floating(op, "weight", weight);
  floating(op, y_name, y);
  type(op, "stats", stats, accumulation_type(y.dtype()));
  count(op, "weight", weight, x.columns());
  matrix(op, y_name, y, x.rows(), x.columns());
  count(op, "stats", stats, x.rows() * numbers);
}

void parameter_gradient(std::string_view op, std::string_view name, const Tensor& gradient,
                        const Tensor& dy) {
  family(op, name, gradient, "dy", dy);
  count(op, name, gradient, dy.columns());
}

void rows_of(std::string_view op, const CrossEntropy& c, const Tensor& logits) {
  floating(op, "logits", logits);
  check(c.valid >= 0 && c.valid <= logits.columns(), op, ": valid = ", c.valid,
        " is not within the ", logits.columns(), " columns of logits");
  not_negative(op, "first_column", c.first_column);
}

void wide(std::string_view op, std::string_view name, const Tensor& x, const Tensor& logits,
          std::int64_t numbers) {
  type(op, name, x, accumulation_type(logits.dtype()));
  count(op, name, x, numbers * logits.rows());
}

void labels_of(std::string_view op, const Tensor& labels, std::int64_t rows) {
  type(op, "labels", labels, DType::kI32);
  count(op, "labels", labels, rows);
}

void smoothing(std::string_view op, const CrossEntropy& c) {
  positive(op, "vocab", c.vocab);
  check(c.smoothing >= 0.0 && c.smoothing < 1.0, op, ": smoothing is ", c.smoothing,
        "; it must be in [0, 1)");
}

void heads(std::string_view op, const Attention& a, const Tensor& qkv) {
  floating(op, "qkv", qkv);
  not_negative(op, "batch", a.batch);
  not_negative(op, "tokens", a.tokens);
  positive(op, "kv_heads", a.kv_heads);
  positive(op, "heads", a.heads);
  positive(op, "head_dim", a.head_dim);
  not_negative(op, "window", a.window);
  check(a.heads % a.kv_heads == 0, op, ": ", a.heads, " query heads cannot share ", a.kv_heads,
        " key/value heads evenly");
  matrix(op, "qkv", qkv, a.batch * a.tokens, (a.heads + 2 * a.kv_heads) * a.head_dim);
  if (a.document_starts) {
    type(op, "document_starts", a.document_starts, DType::kI32);
    count(op, "document_starts", a.document_starts, a.batch * a.tokens);
  }
  if (!a.dropout) return;
  not_negative(op, "first_sample", a.first_sample);
  check(a.first_head >= 0 && a.first_head + a.heads <= a.total_heads, op, ": heads ", a.first_head,
        " to ", a.first_head + a.heads, " are not within total_heads = ", a.total_heads);
}

void per_head(std::string_view op, std::string_view name, const Attention& a, const Tensor& x,
              const Tensor& qkv) {
  type(op, name, x, qkv.dtype());
  matrix(op, name, x, a.batch * a.tokens, a.heads * a.head_dim);
}

void log_sums(std::string_view op, const Attention& a, const Tensor& lse, const Tensor& qkv) {
  type(op, "lse", lse, accumulation_type(qkv.dtype()));
  count(op, "lse", lse, a.batch * a.heads * a.tokens);
}

}  // namespace

void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y,
                const Tensor& stats) {
  norm("layer_norm", x, weight, y, "y", stats, 2);
  floating("layer_norm", "bias", bias);
  count("layer_norm", "bias", bias, x.columns());
}

void layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& stats,
                         const Tensor& dy, const Tensor& dx, const Tensor& dweight,
                         const Tensor& dbias) {
  norm("layer_norm_backward", x, weight, dy, "dy", stats, 2);
  family("layer_norm_backward", "dx", dx, "dy", dy);
  matrix("layer_norm_backward", "dx", dx, x.rows(), x.columns());
  parameter_gradient("layer_norm_backward", "dweight", dweight, dy);
  parameter_gradient("layer_norm_backward", "dbias", dbias, dy);
}

void rms_norm(const Tensor& x, const Tensor& weight, const Tensor& y, const Tensor& stats) {
  norm("rms_norm", x, weight, y, "y", stats, 1);
}

void rms_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& stats, const Tensor& dy,
                       const Tensor& dx, const Tensor& dweight) {
  norm("rms_norm_backward", x, weight, dy, "dy", stats, 1);
  family("rms_norm_backward", "dx", dx, "dy", dy);
  matrix("rms_norm_backward", "dx", dx, x.rows(), x.columns());
  parameter_gradient("rms_norm_backward", "dweight", dweight, dy);
}

namespace {

void normed_heads(std::string_view op, const HeadNorm& n, const Tensor& qkv,
                  const Tensor& query_weight, const Tensor& key_weight, const Tensor& y,
                  std::string_view y_name, const Tensor& stats) {
  positive(op, "heads", n.heads);
  positive(op, "kv_heads", n.kv_heads);
  positive(op, "head_dim", n.head_dim);
  floating(op, "qkv", qkv);
  matrix(op, "qkv", qkv, qkv.rows(), (n.heads + 2 * n.kv_heads) * n.head_dim);
  floating(op, "query_weight", query_weight);
  floating(op, "key_weight", key_weight);
  count(op, "query_weight", query_weight, n.head_dim);
  count(op, "key_weight", key_weight, n.head_dim);
  type(op, y_name, y, qkv.dtype());
  matrix(op, y_name, y, qkv.rows(), qkv.columns());
  type(op, "stats", stats, accumulation_type(qkv.dtype()));
  count(op, "stats", stats, qkv.rows() * (n.heads + n.kv_heads));
}

}  // namespace

void head_norm(const HeadNorm& n, const Tensor& qkv, const Tensor& query_weight,
               const Tensor& key_weight, const Tensor& y, const Tensor& stats) {
  normed_heads("head_norm", n, qkv, query_weight, key_weight, y, "y", stats);
}

void head_norm_backward(const HeadNorm& n, const Tensor& qkv, const Tensor& query_weight,
                        const Tensor& key_weight, const Tensor& stats, const Tensor& dy,
                        const Tensor& dqkv, const Tensor& dquery_weight,
                        const Tensor& dkey_weight) {
  constexpr std::string_view kOp = "head_norm_backward";
  normed_heads(kOp, n, qkv, query_weight, key_weight, dy, "dy", stats);
  type(kOp, "dqkv", dqkv, qkv.dtype());
  matrix(kOp, "dqkv", dqkv, qkv.rows(), qkv.columns());
  family(kOp, "dquery_weight", dquery_weight, "dy", dy);
  family(kOp, "dkey_weight", dkey_weight, "dy", dy);
  count(kOp, "dquery_weight", dquery_weight, n.head_dim);
  count(kOp, "dkey_weight", dkey_weight, n.head_dim);
}

void rotary(const Rotary& r, const Tensor& x) {
  floating("rotary", "x", x);
  positive("rotary", "tokens", r.tokens);
  not_negative("rotary", "heads", r.heads);
  not_negative("rotary", "first_position", r.first_position);
  check(r.head_dim > 0 && r.head_dim % 2 == 0, "rotary: head_dim is ", r.head_dim,
        "; an even number is needed");
  check(r.heads * r.head_dim <= x.columns(), "rotary: ", r.heads, " heads of ", r.head_dim,
        " do not fit the ", x.columns(), " columns of x");
  check(r.theta > 0.0, "rotary: theta is ", r.theta, "; it must be positive");
  const RopeScaling& s = r.scaling;
  check(s.factor > 0 && s.low > 0 && s.high > s.low && s.original > 0, "rotary: scaling by factor ",
        s.factor, " with low ", s.low, ", high ", s.high, " and original ", s.original,
        "; all must be positive, and high above low");
}

void attention(const Attention& a, const Tensor& qkv, const Tensor& out, const Tensor& lse) {
  heads("attention", a, qkv);
  per_head("attention", "out", a, out, qkv);
  log_sums("attention", a, lse, qkv);
}

void attention_backward(const Attention& a, const Tensor& qkv, const Tensor& out, const Tensor& lse,
                        const Tensor& dout, const Tensor& dqkv) {
  heads("attention_backward", a, qkv);
  per_head("attention_backward", "out", a, out, qkv);
  per_head("attention_backward", "dout", a, dout, qkv);
  log_sums("attention_backward", a, lse, qkv);
  type("attention_backward", "dqkv", dqkv, qkv.dtype());
  matrix("attention_backward", "dqkv", dqkv, qkv.rows(), qkv.columns());
}

void row_max(const CrossEntropy& c, const Tensor& logits, const Tensor& max) {
  rows_of("row_max", c, logits);
  wide("row_max", "max", max, logits, 1);
}

void cross_entropy_sums(const CrossEntropy& c, const Tensor& logits, const Tensor& max,
                        const Tensor& labels, const Tensor& sums) {
  rows_of("cross_entropy_sums", c, logits);
  wide("cross_entropy_sums", "max", max, logits, 1);
  labels_of("cross_entropy_sums", labels, logits.rows());
  wide("cross_entropy_sums", "sums", sums, logits, 3);
}

void cross_entropy_loss(const CrossEntropy& c, const Tensor& sums, const Tensor& labels,
                        const Tensor& total) {
  smoothing("cross_entropy_loss", c);
  defined("cross_entropy_loss", "sums", sums);
  check(sums.dtype() == DType::kF64 || sums.dtype() == DType::kF32,
        "cross_entropy_loss: ", Described{"sums", sums}, "; f64 or f32 is needed");
  defined("cross_entropy_loss", "labels", labels);
  labels_of("cross_entropy_loss", labels, labels.elements());
  count("cross_entropy_loss", "sums", sums, 3 * labels.elements());
  type("cross_entropy_loss", "total", total, DType::kF64);
  count("cross_entropy_loss", "total", total, 1);
}

void cross_entropy_backward(const CrossEntropy& c, const Tensor& logits, const Tensor& max,
                            const Tensor& sums, const Tensor& labels, const Tensor& dlogits) {
  rows_of("cross_entropy_backward", c, logits);
  smoothing("cross_entropy_backward", c);
  wide("cross_entropy_backward", "max", max, logits, 1);
  wide("cross_entropy_backward", "sums", sums, logits, 3);
  labels_of("cross_entropy_backward", labels, logits.rows());
  floating("cross_entropy_backward", "dlogits", dlogits);
  family("cross_entropy_backward", "dlogits", dlogits, "logits", logits);
  matrix("cross_entropy_backward", "dlogits", dlogits, logits.rows(), logits.columns());
}

}  // namespace trireme::kernel_checks
