// Vocabulary-parallel embedding, and the padding of the vocabulary (Megatron-LM, arXiv 1909.08053,
// section 3).
//
// Legend: V vocabulary, V' padded, t tensor ranks, R rows, C channels.
#pragma once

#include <memory>
#include <string>

#include "framework/nn/module.h"
#include "tensor_parallel/regions.h"

namespace trireme {

// V' = the smallest multiple of t (of 64 t from 1024 tokens on, where matrix products gain from it)
// that holds V. Padding rows are zero, never looked up, and masked in the softmax.
std::int64_t padded_vocab(std::int64_t vocab, int tensor_ranks);

// This rank's rows of a (V, C) table, V' / t of them: tokens [rank * V' / t, ...). `sum` and
// `counts_in_norm` serve tied copies.
ParameterSpec vocab_table(const TensorGroup& group, const std::string& name, std::int64_t vocab,
                          std::int64_t columns, double init_std, SumGroup sum, bool counts_in_norm);

struct EmbeddingOptions {
  std::string name = "embedding";
  std::int64_t vocab = 0, columns = 0;
  std::int64_t positions = 0;  // rows of a learned position table; 0 = none
  // Token rows are multiplied by sqrt(columns), rounded to the compute type first, as transformers
  // does for Gemma (the product stays in the stream's wide type). Not with learned positions.
  bool scaled = false;
  double init_std = 0.02;
  double dropout = 0;
  bool sequence_parallel = false;  // gradients of positions will be summed over the tensor ranks
  SumGroup table_sum = SumGroup::kNone;
};

// ids (R) i32 -> (R, C) stream, or this rank's rows of it.
class VocabEmbedding : public Module {
 public:
  VocabEmbedding(const TensorGroup& group, const EmbeddingOptions& options);
  Var forward(const Context& ctx, const Var& ids) override;
  void visit(const ParameterFn& fn) override;
  Parameter& table() { return table_; }

 private:
  void record(const Context& ctx, const Var& ids, const Var& out, std::int64_t first_row);
  void add_cached_positions(const Context& ctx, const Tensor& x) const;
  double factor(const Context& ctx) const;  // of the rows

  TensorGroup group_;
  EmbeddingOptions options_;
  Parameter table_;
  std::unique_ptr<Parameter> positions_;
};

}  // namespace trireme
