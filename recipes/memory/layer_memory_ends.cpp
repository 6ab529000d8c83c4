// The lists of embedding and head, of both families.
//
// Legend as in layer_memory.h. The head's loss and its gradients are made in backward, chunk by
// chunk of n rows; the lists show the first chunk, which is the largest.
#include "recipes/memory/memory_script.h"

namespace trireme {

namespace {

std::vector<MemoryStep> embedding_forward(const LayerSizes& s) {
  MemoryScript list;
  const std::string rows = s.dropout ? "token rows" : "output";
  if (s.sharded) list.take("token rows, partial sums", s.R * s.C * s.w);
  list.take(rows, s.r * s.C * s.w);
  if (s.dropout) {
    list.take("output", s.r * s.C * s.w);
    list.give(rows);
  }
  if (s.sharded) list.give("token rows, partial sums");
  list.expect_only("output");
  return list.cut();
}

struct Halves {
  std::vector<MemoryStep> input, weight;
};

Halves embedding_backward(const LayerSizes& s, bool narrow) {
  MemoryScript list;
  list.handed("output gradient", s.r * s.C * (narrow ? s.c : s.w));
  std::string gradient = "output gradient";
  if (narrow) {
    gradient = "output gradient in wide type";
    list.take(gradient, s.r * s.C * s.w);
    list.give("output gradient");
  }
  if (s.sharded) list.take(gradient + ", all rows", s.R * s.C * s.w);
  Halves halves{.input = list.cut(), .weight = {}};
  if (s.sharded) list.give(gradient + ", all rows");
  list.give(gradient);
  list.expect_only("");
  halves.weight = list.cut();
  return halves;
}

// `rows` are those of the loss: tokens, or the samples of the mlp family.
class HeadScript {
 public:
  HeadScript(const LayerSizes& sizes, bool norm)
      : s_(sizes),
        norm_(norm),
        rows_(norm ? sizes.R : sizes.B),
        own_rows_(norm ? sizes.r : sizes.B),
        x_(norm          ? "norm output"
           : sizes.mixed ? "input in compute type"
                         : "input") {
    list_.handed("input", own_rows_ * s_.C * s_.w);
  }

  void forward() {
    make_operand("statistics");
    if (norm_ && s_.selective) list_.give(x_);
    if (!norm_ && s_.mixed) list_.give("input");
  }

  void inference() {
    make_operand("statistics");
    if (norm_) list_.give("statistics");
    gather();
    chunk(false);
    if (s_.sharded) list_.give(x_ + ", all rows");
    if (x_ != "input") list_.give(x_);
    list_.give("input");
  }

  void backward() {
    const std::string dx = x_ + " gradient";
    if (norm_ && s_.selective) {
      make_operand("statistics, again");
      list_.give("statistics, again");
    }
    gather();
    list_.take(s_.sharded ? dx + ", partial sums" : dx, rows_ * s_.C * s_.c);
    chunk(true);
    if (s_.sharded) {
      list_.give(x_ + ", all rows");
      if (s_.selective) list_.give(x_);
      list_.take(dx, own_rows_ * s_.C * s_.c);
      list_.give(dx + ", partial sums");
      if (!s_.selective) list_.give(x_);
    } else {
      list_.give(x_);
    }
    if (!norm_) {
      if (dx != "input gradient") list_.rename(dx, "input gradient");
      return;
    }
    list_.take("input gradient", own_rows_ * s_.C * s_.w);
    list_.give(dx);
    list_.give("statistics");
    list_.give("input");
  }

  MemoryScript& list() { return list_; }

 private:
  void make_operand(const std::string& statistics) {
    if (x_ != "input") list_.take(x_, own_rows_ * s_.C * s_.c);
    if (norm_) list_.take(statistics, own_rows_ * s_.stats * s_.w);
  }
  void gather() {
    if (s_.sharded) list_.take(x_ + ", all rows", rows_ * s_.C * s_.c);
  }
  void chunk(bool gradients) {
    const bool own = gradients && s_.mixed;  // else the gradient overwrites the logits
    list_.take("logits", s_.n * s_.V * s_.w);
    list_.take("row maxima", s_.n * s_.w);
    list_.take("row sums", s_.n * Extent{"3", 3} * s_.w);
    if (own) list_.take("logits gradient", s_.n * s_.V * s_.c);
    if (own) list_.give("logits gradient");
    list_.give("row sums");
    list_.give("row maxima");
    list_.give("logits");
  }

  const LayerSizes& s_;
  bool norm_;
  Extent rows_, own_rows_;
  std::string x_;  // the operand of the logits
  MemoryScript list_;
};

}  // namespace

LayerMemory embedding_memory(const ModelOptions& model, const LayerSizes& sizes,
                             const LayerUse& use) {
  const bool narrow = model.family == Family::kMlp && sizes.mixed && use.narrow_gradient;
  const Halves backward = embedding_backward(sizes, narrow);
  return {.forward = embedding_forward(sizes),
          .backward = joined(backward.input, backward.weight),
          .backward_input = backward.input,
          .backward_weight = backward.weight,
          .inference = embedding_forward(sizes)};
}

LayerMemory head_memory(const ModelOptions& model, const LayerSizes& sizes) {
  const bool norm = model.family == Family::kDecoder;
  LayerMemory memory;
  HeadScript train(sizes, norm), infer(sizes, norm);
  train.forward();
  memory.forward = train.list().cut();
  train.backward();
  memory.backward = train.list().cut();
  memory.backward_input = memory.backward;  // the table's gradient is part of B
  train.list().expect_only("input gradient");
  infer.inference();
  memory.inference = infer.list().cut();
  infer.list().expect_only("");
  return memory;
}

}  // namespace trireme
