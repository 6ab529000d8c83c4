// The list of a block of the mlp family: column linear -> activation -> row linear -> dropout,
// added to its input from the second block on.
//
// Legend as in layer_memory.h. The head hands back a gradient of the compute type, which stays so
// down to the embedding unless a pipeline's cut widens it.
#include "recipes/memory/memory_script.h"

namespace trireme {

namespace {

class MlpScript {
 public:
  MlpScript(const LayerSizes& sizes, const LayerUse& use, bool split)
      : s_(sizes),
        queued_(sizes.alone || split),
        drains_(sizes.alone && !split),
        residual_(!use.first_block),
        casts_(sizes.mixed && !use.narrow_gradient) {
    list_.handed("input", s_.B * s_.K * s_.w);
  }

  void forward(bool tape) {
    if (s_.mixed) list_.take("input in compute type", s_.B * s_.K * s_.c);
    list_.take("up output", s_.B * s_.up * s_.c);
    if (s_.mixed && !tape) list_.give("input in compute type");
    list_.take("activation output", s_.B * s_.F * s_.c);
    list_.take("mlp branch", s_.B * s_.C * s_.c);
    if (!tape) list_.give("up output");
    if (!tape || s_.selective) list_.give("activation output");
    if (s_.dropout) {
      list_.take("dropout output", s_.B * s_.C * s_.c);
      list_.give("mlp branch");
    }
    const std::string last = s_.dropout ? "dropout output" : "mlp branch";
    if (residual_ || s_.mixed) {
      list_.take("output", s_.B * s_.C * s_.w);
      list_.give(last);
    } else {
      list_.rename(last, "output");
    }
    if (!tape || s_.mixed) list_.give("input");  // else kept as the operand
  }

  // The output is given back first: not by this layer, but by now.
  void begin_backward() {
    list_.give("output");
    list_.cut();
    list_.handed("output gradient", gradient());
  }

  void backward_input() {
    row_gradient();
    if (drains_) row_weights();
    list_.take("up output gradient", s_.B * s_.up * s_.c);
    list_.give("activation output gradient");
    if (!s_.selective || drains_) list_.give("up output");
    list_.take("up input gradient", s_.B * s_.K * s_.c);
    if (!queued_) row_weights();
    if (!queued_) column_weights();
    input_gradient();
  }

  void backward_weight() {
    if (queued_ && !drains_) row_weights();
    if (queued_) column_weights();
  }

  MemoryScript& list() { return list_; }

 private:
  Extent gradient() const { return s_.B * s_.C * (casts_ ? s_.w : s_.c); }

  // Without a residual the stream's gradient is the branch's alone: masked in place, then cast
  // away.
  void row_gradient() {
    if (s_.dropout && residual_) list_.take("dropout gradient", gradient());
    if (casts_) list_.take("mlp branch gradient", s_.B * s_.C * s_.c);
    if (casts_ && s_.dropout && residual_) list_.give("dropout gradient");
    if (casts_ && !residual_) list_.give("output gradient");
    list_.take("activation output gradient", s_.B * s_.F * s_.c);
  }

  void input_gradient() {
    if (!residual_) return list_.rename("up input gradient", "input gradient");
    if (queued_ && !drains_ && branch_shares_stream()) {
      list_.take("input gradient", gradient());
    } else {
      list_.rename("output gradient", "input gradient");
    }
    list_.give("up input gradient");
  }

  // The queued weight gradients, and what they held. (The column linear's is held by the running
  // tape entry too when the queue drains there, but nothing is taken until that ends.)
  void row_weights() {
    if (s_.selective) {
      list_.take("activation output", s_.B * s_.F * s_.c);
      list_.give("activation output");
      if (!drains_) list_.give("up output");
    } else {
      list_.give("activation output");
    }
    if (casts_)
      list_.give("mlp branch gradient");
    else if (s_.dropout && residual_)
      list_.give("dropout gradient");
    else if ((queued_ && !drains_) || !residual_)
      list_.give("output gradient");
  }

  void column_weights() {
    list_.give("up output gradient");
    list_.give(s_.mixed ? "input in compute type" : "input");
  }

  bool branch_shares_stream() const { return !casts_ && !s_.dropout; }

  const LayerSizes& s_;
  bool queued_;  // the column linear's weight gradient waits for longer than its own backward
  bool drains_;  // the row linear's does not
  bool residual_;
  bool casts_;  // the output gradient is wider than the operands
  MemoryScript list_;
};

}  // namespace

LayerMemory mlp_block_memory(const LayerSizes& sizes, const LayerUse& use) {
  return block_memory<MlpScript>([&](bool split) { return MlpScript(sizes, use, split); });
}

}  // namespace trireme
