// Legend as in head.h.
#include "tensor_parallel/head.h"

#include <algorithm>

#include "framework/autograd/inference_pass.h"
#include "framework/autograd/ops.h"
#include "framework/base/error.h"
#include "tensor_parallel/embedding.h"
#include "tensor_parallel/linear.h"

namespace trireme {

struct Head::Chunk {
  Tensor logits;  // (n, V' / t) wide
  Tensor max;     // (n)
  Tensor sums;    // (n, 3)
};

Head::Head(const TensorGroup& group, const HeadOptions& options, Parameter* tied)
    : group_(group),
      options_(options),
      norm_(options.norm ? std::make_unique<Norm>("norm", *options.norm) : nullptr),
      own_table_(tied ? nullptr
                      : std::make_unique<Parameter>(vocab_table(
                            group, options.table_name, options.vocab, options.columns,
                            options.init_std, options.table_sum, options.counts_in_norm))),
      table_(tied ? *tied : *own_table_) {}

void Head::visit(const ParameterFn& fn) {
  if (norm_) norm_->visit(fn);
  fn(table_);
}

CrossEntropy Head::spec(const Context& ctx) const {
  const std::int64_t columns = table_.spec().shape[0];
  return {.first_column = columns * group_.rank(),
          .valid = table_.spec().sections[0].rows,
          .vocab = options_.vocab,
          .smoothing = ctx.target->smoothing};
}

Var Head::forward(const Context& ctx, const Var& x) {
  if (ctx.inference) {
    answer(ctx, x.value);
    return {ctx.inference->logits};
  }
  Var h = as_type(ctx, norm_ ? norm_->forward(ctx, x) : x, ctx.compute);
  if (!ctx.target) return {last_row_logits(ctx, whole_gradient(ctx, group_, h.value))};
  if (!ctx.tape) {
    evaluate(ctx, whole_gradient(ctx, group_, h.value));
    return {ctx.target->total};
  }
  ctx.tape->record([this, ctx, saved = Saved(h), upstream = h.grad] {
    Tensor dh = backward(ctx, whole_gradient(ctx, group_, saved.get()));
    if (shards_rows(ctx, group_)) {
      ScatteredRows scattered = start_reduce_rows(ctx, group_, dh);
      scattered.pending.wait();
      dh = scattered.shard;
    }
    if (upstream) upstream->add(ctx.backend, std::move(dh));
  });
  return make_var(ctx.target->total, true);
}

// Rows of which all logits are wanted come first.
void Head::answer(const Context& ctx, const Tensor& x) {
  InferencePass& pass = *ctx.inference;
  const WantedTop& top = pass.wanted_top();
  std::vector<std::int64_t> wanted = pass.logit_rows();
  const auto whole = std::ssize(wanted);
  wanted.insert(wanted.end(), top.rows.begin(), top.rows.end());
  const auto n = std::ssize(wanted);
  if (n == 0) return;
  Tensor rows = x;
  if (n < x.rows() || !std::is_sorted(wanted.begin(), wanted.end())) {
    rows = ctx.backend.allocate({n, x.columns()}, x.dtype(), MemoryKind::kActivations);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t row = wanted[static_cast<std::size_t>(i)];
      ctx.backend.copy(x.sliced_rows(row, row + 1), rows.sliced_rows(i, i + 1));
    }
  }
  const Var h = as_type(ctx, norm_ ? norm_->forward(ctx, {rows}) : Var{rows}, ctx.compute);
  const std::int64_t columns = table_.spec().shape[0];
  const Tensor local = ctx.backend.allocate({n, columns}, ctx.wide(), MemoryKind::kActivations);
  product(ctx, h.value, table_, {}, local);
  if (whole > 0) pass.logits = gathered(ctx, local.sliced_rows(0, whole));
  if (whole == n) return;
  const std::int64_t first = columns * group_.rank();
  const TopRows spec{
      .count = top.count,
      .first_column = first,
      .valid = std::clamp<std::int64_t>(top.ids - first, 0, table_.spec().sections[0].rows),
      .sums = top.sums};
  const Tensor records =
      ctx.backend.allocate({n - whole, spec.words()}, DType::kI32, MemoryKind::kActivations);
  ctx.backend.infer_kernels()->top(spec, local.sliced_rows(whole, n), records);
  pass.top = gathered(ctx, records);
}

// (rows, columns) of each rank -> (t * rows, columns).
Tensor Head::gathered(const Context& ctx, const Tensor& local) const {
  if (group_.size() == 1) return local;
  const Tensor whole = ctx.backend.allocate({local.rows() * group_.size(), local.columns()},
                                            local.dtype(), MemoryKind::kActivations);
  group_.comm->all_gather(local, whole).wait();
  return whole;
}

Tensor Head::last_row_logits(const Context& ctx, const Tensor& h) const {
  Tensor local =
      ctx.backend.allocate({1, table_.spec().shape[0]}, ctx.compute, MemoryKind::kActivations);
  product(ctx, h.sliced_rows(h.rows() - 1, h.rows()), table_, {}, local);
  return gathered(ctx, local).reshaped({1, local.columns() * group_.size()});
}

Head::Chunk Head::loss_of(const Context& ctx, const Tensor& h, const Tensor& labels) const {
  const CrossEntropy ce = spec(ctx);
  const std::int64_t n = h.rows();
  const auto make = [&](Shape shape) {
    return ctx.backend.allocate(shape, ctx.wide(), MemoryKind::kActivations);
  };
  Chunk chunk{make({n, table_.spec().shape[0]}), make({n}), make({n, 3})};
  product(ctx, h, table_, {}, chunk.logits);
  ctx.backend.kernels()->row_max(ce, chunk.logits, chunk.max);
  if (group_.size() > 1) group_.comm->all_reduce(chunk.max, ReduceOp::kMax).wait();
  ctx.backend.kernels()->cross_entropy_sums(ce, chunk.logits, chunk.max, labels, chunk.sums);
  if (group_.size() > 1) group_.comm->all_reduce(chunk.sums).wait();
  ctx.backend.kernels()->cross_entropy_loss(ce, chunk.sums, labels, ctx.target->total);
  return chunk;
}

void Head::evaluate(const Context& ctx, const Tensor& h) const {
  for (std::int64_t begin = 0; begin < h.rows(); begin += options_.chunk_rows) {
    const std::int64_t end = std::min(h.rows(), begin + options_.chunk_rows);
    const Chunk chunk =
        loss_of(ctx, h.sliced_rows(begin, end), ctx.target->labels.sliced_rows(begin, end));
    if (ctx.target->sums) ctx.backend.copy(chunk.sums, ctx.target->sums.sliced_rows(begin, end));
  }
}

Tensor Head::backward(const Context& ctx, const Tensor& h) {
  check(ctx.target->labels.elements() == h.rows(), "head: ", ctx.target->labels.elements(),
        " labels for ", h.rows(), " rows");
  const bool sums_here = group_.size() > 1 && !shards_rows(ctx, group_);
  Tensor dh = ctx.backend.allocate(h.shape(), ctx.compute, MemoryKind::kActivations);
  for (std::int64_t begin = 0; begin < h.rows(); begin += options_.chunk_rows) {
    const std::int64_t end = std::min(h.rows(), begin + options_.chunk_rows);
    Tensor rows = h.sliced_rows(begin, end), labels = ctx.target->labels.sliced_rows(begin, end);
    Tensor drows = dh.sliced_rows(begin, end);
    Chunk chunk = loss_of(ctx, rows, labels);
    Tensor dlogits =
        chunk.logits.dtype() == ctx.compute
            ? chunk.logits
            : ctx.backend.allocate(chunk.logits.shape(), ctx.compute, MemoryKind::kActivations);
    ctx.backend.train_kernels()->cross_entropy_backward(
        spec(ctx), chunk.logits, chunk.max, chunk.sums, labels, ctx.target->seed, dlogits);
    ctx.backend.kernels()->matmul({.a = dlogits, .b = table_.value, .c = drows});
    Pending summed = sums_here ? group_.comm->all_reduce(drows) : Pending();
    add_weight_gradient(ctx.backend, table_, dlogits, rows);
    summed.wait();
  }
  return dh;
}

}  // namespace trireme
