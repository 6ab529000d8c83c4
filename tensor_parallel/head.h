// The last list entry: final norm, vocabulary-parallel logits, and cross-entropy that never holds
// all logits (Megatron-LM, arXiv 1909.08053, section 3: three sums of R numbers instead of R x V
// logits).
//
// With a tape the product, the loss, and both gradients are computed chunk by chunk *in backward*:
// logits live for one chunk of rows, are computed once, and LossTarget::total is filled by then.
// The head's weight gradient is part of B in a split backward, since keeping it for W would mean
// keeping the logits.
//
// Legend: R rows, C channels, V vocabulary, t tensor ranks, n rows of a chunk.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "framework/nn/norm.h"
#include "tensor_parallel/regions.h"

namespace trireme {

struct HeadOptions {
  std::int64_t vocab = 0, columns = 0;
  std::optional<NormOptions> norm;  // of the final norm, "norm"
  double init_std = 0.02;
  std::int64_t chunk_rows = 256;  // n: bounds the logits in memory
  SumGroup table_sum = SumGroup::kNone;
  bool counts_in_norm = true;  // false for the second copy of a tied table
  std::string table_name = "head.weight";
};

class Head : public Module {
 public:
  // `tied`: the embedding's table when this rank holds it too; null makes a table of its own.
  Head(const TensorGroup& group, const HeadOptions& options, Parameter* tied);

  // x (R, C) stream (or this rank's rows).
  //  ctx.target set: adds the loss to target->total (at once without a tape, in backward with one);
  //  the value returned is total. no target: logits (1, V') in the compute type of the last row, on
  //  every tensor rank. ctx.inference set: logits of the rows that it wants, in the wide type, into
  //  it, and the likeliest ids of those of which it wants no more; over t ranks V' values a row are
  //  gathered, or t records. The value is the logits, or empty.
  Var forward(const Context& ctx, const Var& x) override;
  void visit(const ParameterFn& fn) override;

 private:
  struct Chunk;
  CrossEntropy spec(const Context& ctx) const;
  void answer(const Context& ctx, const Tensor& x);
  Tensor gathered(const Context& ctx, const Tensor& local) const;
  Tensor last_row_logits(const Context& ctx, const Tensor& h) const;
  Chunk loss_of(const Context& ctx, const Tensor& h, const Tensor& labels) const;
  void evaluate(const Context& ctx, const Tensor& h) const;
  Tensor backward(const Context& ctx, const Tensor& h);

  TensorGroup group_;
  HeadOptions options_;
  std::unique_ptr<Norm> norm_;
  std::unique_ptr<Parameter> own_table_;
  Parameter& table_;
};

}  // namespace trireme
