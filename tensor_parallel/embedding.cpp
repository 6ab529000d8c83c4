// Legend as in embedding.h.
#include "tensor_parallel/embedding.h"

#include <algorithm>
#include <cmath>

#include "framework/autograd/inference_pass.h"
#include "framework/autograd/ops.h"
#include "framework/backend/infer_kernels.h"
#include "framework/base/error.h"
#include "framework/base/rounding.h"

namespace trireme {

namespace {

ParameterSpec position_table(const TensorGroup& group, const EmbeddingOptions& options) {
  Section section =
      whole_section(options.name + ".positions", {options.positions, options.columns});
  section.sum = options.sequence_parallel && group.size() > 1 ? SumGroup::kTensor : SumGroup::kNone;
  section.counts_in_norm = group.rank() == 0;
  return {.name = section.name,
          .shape = section.logical,
          .sections = {section},
          .init = {Init::Kind::kNormal, options.init_std}};
}

// In place if nobody else holds it.
Tensor scaled(const Context& ctx, Tensor x, double factor) {
  if (!x.sole_owner()) {
    Tensor copy = ctx.backend.allocate(x.shape(), x.dtype(), MemoryKind::kActivations);
    ctx.backend.kernels()->cast(x, copy);
    x = std::move(copy);
  }
  ctx.backend.kernels()->scale(x, factor);
  return x;
}

}  // namespace

std::int64_t padded_vocab(std::int64_t vocab, int tensor_ranks) {
  const std::int64_t multiple = tensor_ranks * (vocab >= 1024 ? 64 : 1);
  return (vocab + multiple - 1) / multiple * multiple;
}

ParameterSpec vocab_table(const TensorGroup& group, const std::string& name, std::int64_t vocab,
                          std::int64_t columns, double init_std, SumGroup sum,
                          bool counts_in_norm) {
  const std::int64_t rows = padded_vocab(vocab, group.size()) / group.size();
  const std::int64_t first = std::min(vocab, rows * group.rank());
  Section section = whole_section(name, {vocab, columns});
  section.global_row = first;
  section.rows = std::min(vocab, rows * (group.rank() + 1)) - first;
  section.sum = sum;
  section.counts_in_norm = counts_in_norm;
  return {.name = name,
          .shape = {rows, columns},
          .sections = {section},
          .init = {Init::Kind::kNormal, init_std},
          .quantizable = Quantizable::kTable};
}

VocabEmbedding::VocabEmbedding(const TensorGroup& group, const EmbeddingOptions& options)
    : group_(group),
      options_(options),
      table_(vocab_table(group, options.name + ".table", options.vocab, options.columns,
                         options.init_std, options.table_sum, true)) {
  check(!options.scaled || options.positions == 0,
        "embedding: rows cannot be scaled beside learned positions");
  if (options.positions > 0)
    positions_ = std::make_unique<Parameter>(position_table(group, options));
}

void VocabEmbedding::visit(const ParameterFn& fn) {
  fn(table_);
  if (positions_) fn(*positions_);
}

Var VocabEmbedding::forward(const Context& ctx, const Var& ids) {
  check(!positions_ || ctx.inference || ctx.tokens <= options_.positions, "embedding: ", ctx.tokens,
        " tokens but only ", options_.positions, " learned positions");
  Tensor partial = ctx.backend.allocate({ids.value.elements(), options_.columns}, ctx.wide(),
                                        MemoryKind::kActivations);
  const std::int64_t first = table_.spec().shape[0] * group_.rank();
  if (table_.format() != WeightFormat::kPlain)
    ctx.backend.infer_kernels()->lookup(ids.value, table_.quantized(), first, partial);
  else if (table_.tiled())
    ctx.backend.infer_kernels()->tiled_lookup(ids.value, table_.value, first, partial);
  else
    ctx.backend.kernels()->embedding(ids.value, table_.value, first, partial);
  Tensor x = sum_forward(ctx, group_, partial);
  const std::int64_t first_row = shards_rows(ctx, group_) ? group_.rank() * x.rows() : 0;
  if (options_.scaled) ctx.backend.kernels()->scale(x, factor(ctx));
  if (positions_ && ctx.inference)
    add_cached_positions(ctx, x);
  else if (positions_)
    ctx.backend.kernels()->add_positions(
        positions_->value,
        {.tokens = ctx.tokens, .first_row = first_row, .document_starts = ctx.document_starts}, x);
  Var out = make_var(x, ctx.tape && wants_grad(*this));
  if (out.wants_grad()) record(ctx, ids, out, first_row);
  return dropout(ctx, out,
                 {.site = RngKey{}.child(options_.name).value,
                  .p = options_.dropout,
                  .first_row = first_global_row(ctx, group_, x.rows(), ctx.tokens)});
}

// Rows of each sequence go on where its cache ends.
void VocabEmbedding::add_cached_positions(const Context& ctx, const Tensor& x) const {
  for (const PagedSequence& s : ctx.inference->sequences()) {
    check(s.first_position + s.rows <= options_.positions, "embedding: position ",
          s.first_position + s.rows - 1, " but only ", options_.positions, " learned positions");
    ctx.backend.kernels()->add_positions(positions_->value,
                                         {.tokens = s.rows, .first_position = s.first_position},
                                         x.sliced_rows(s.first_row, s.first_row + s.rows));
  }
}

double VocabEmbedding::factor(const Context& ctx) const {
  const double root = std::sqrt(static_cast<double>(options_.columns));
  switch (ctx.compute) {
    case DType::kBF16:
      return static_cast<float>(round_to_bf16(root));
    case DType::kF16:
      return static_cast<float>(round_to_f16(root));
    case DType::kF32:
      return static_cast<float>(root);
    default:
      return root;
  }
}

void VocabEmbedding::record(const Context& ctx, const Var& ids, const Var& out,
                            std::int64_t first_row) {
  ctx.tape->record([this, ctx, ids = ids.value, first_row, shape = out.value.shape(),
                    slot = out.grad] {
    Tensor dy = take_or_zeros(ctx, *slot, shape, ctx.wide());
    if (options_.scaled) dy = scaled(ctx, std::move(dy), factor(ctx));
    Tensor whole = whole_gradient(ctx, group_, dy);
    ctx.tape->later([this, ctx, ids, first_row, dy, whole] {
      if (table_.spec().trainable)
        ctx.backend.train_kernels()->embedding_backward(
            ids, whole, table_.spec().shape[0] * group_.rank(), table_.grad, table_.accumulate());
      if (positions_ && positions_->spec().trainable)
        ctx.backend.train_kernels()->add_positions_backward(
            dy,
            {.tokens = ctx.tokens, .first_row = first_row, .document_starts = ctx.document_starts},
            positions_->grad, positions_->accumulate());
    });
  });
}

}  // namespace trireme
