// The list of a decoder's block: two halves of one shape, norm -> column linear -> attention or
// activation -> row linear -> dropout -> add.
//
// Legend as in layer_memory.h. What decides the order:
//  - Forward: a half is one expression, so norm output and branch live until the sum is made. The
//  tape keeps what gradients need: input, norm output and statistics, wide product, inner output,
//  log-sum-exp.
//  - Backward: weight gradients wait in the tape's queue and keep their operands. With tensor ranks
//  each half drains the queue under its own all-reduce; alone, each row linear drains it at once,
//  and the last column linear's waits for the unit's end; in a split backward all of it is left to
//  W, which also gathers cut rows itself.
//  - A gradient of the stream is shared by the branch and the residual. Added to in place once the
//  branch has a tensor of its own (cast, dropout) or has drained, else a sum is made beside it.
#include "recipes/memory/memory_script.h"

namespace trireme {

namespace {

struct Half {
  std::string norm, wide, inner, branch, dropout;
  std::string from, to;  // the stream before and after
  Extent wide_columns, inner_columns;
  bool attention;
};

class BlockScript {
 public:
  explicit BlockScript(const LayerSizes& sizes, bool split = false)
      : s_(sizes),
        split_(split),
        queued_(sizes.alone || split),
        drains_(sizes.alone && !split),
        attention_{"norm1", "qkv",    "attention output", "attention branch", "dropout1",
                   "input", "middle", sizes.qkv,          sizes.heads,        true},
        mlp_{"norm2",      "up output", "activation output",
             "mlp branch", "dropout2",  "middle",
             "output",     sizes.up,    sizes.F,
             false} {
    list_.handed("input", stream());
  }

  void forward(bool tape) {
    forward(attention_, tape);
    forward(mlp_, tape);
    if (tape) return;
    list_.give("middle");
    list_.give("input");
  }

  // The output is given back first: not by this layer, but by now.
  void begin_backward() {
    list_.give("output");
    list_.cut();
    list_.handed("output gradient", stream());
  }

  void backward_input() {
    backward(mlp_);
    backward(attention_);
  }

  void backward_weight() {
    if (!queued_) return;
    if (drains_) return column_weights(attention_);
    for (const Half* half : {&mlp_, &attention_}) {
      row_weights(*half);
      column_weights(*half);
    }
  }

  MemoryScript& list() { return list_; }

 private:
  Extent stream() const { return s_.r * s_.C * s_.w; }
  Extent narrow() const { return s_.r * s_.C * s_.c; }
  Extent narrow_whole() const { return s_.R * s_.C * s_.c; }

  void forward(const Half& h, bool tape) {
    const bool keeps_norm = tape && !s_.selective;
    list_.take(h.norm + " output", narrow());
    list_.take(h.norm + " statistics", s_.r * s_.stats * s_.w);
    if (!tape) list_.give(h.norm + " statistics");
    if (s_.sharded) list_.take(h.norm + " output, all rows", narrow_whole());
    list_.take(h.wide, s_.R * h.wide_columns * s_.c);
    if (s_.sharded) list_.give(h.norm + " output, all rows");
    if (norms_heads(h)) norm_heads(h, tape);
    list_.take(h.inner, s_.R * h.inner_columns * s_.c);
    if (h.attention) list_.take("log-sum-exp", s_.R * s_.H * s_.w);
    if (h.attention && !tape) list_.give("log-sum-exp");
    row_linear(h);
    if (!tape) list_.give(operand(h));
    if (!tape || remade(h)) list_.give(h.inner);
    if (s_.dropout) list_.take(h.dropout + " output", narrow());
    list_.take(h.to, stream());
    if (s_.dropout) list_.give(h.dropout + " output");
    list_.give(h.branch);
    if (!keeps_norm) list_.give(h.norm + " output");
  }

  // The heads as they were are an operand of the norm's gradient.
  void norm_heads(const Half& h, bool tape) {
    list_.take("normed " + h.wide, s_.R * h.wide_columns * s_.c);
    list_.take("head norm statistics", s_.R * s_.normed * s_.w);
    if (tape) return;
    list_.give("head norm statistics");
    list_.give(h.wide);
  }

  void row_linear(const Half& h) {
    if (!s_.sharded) return list_.take(h.branch, narrow_whole());
    list_.take(h.branch + ", partial sums", narrow_whole());
    list_.take(h.branch, narrow());
    list_.give(h.branch + ", partial sums");
  }

  void backward(const Half& h) {
    row_gradient(h);
    if (drains_ && h.attention) column_weights(mlp_);
    if (drains_) row_weights(h);
    list_.take(h.wide + " gradient", s_.R * h.wide_columns * s_.c);
    list_.give(h.inner + " gradient");
    if (!remade(h) || drains_) list_.give(operand(h));
    if (h.attention && drains_) list_.give(h.inner);  // attention's own operand, too
    if (h.attention) list_.give("log-sum-exp");
    if (norms_heads(h)) {
      list_.give(h.wide);
      list_.give("head norm statistics");
    }
    column_gradient(h);
    norm_gradient(h);
  }

  // From the stream's gradient to that of the inner output.
  void row_gradient(const Half& h) {
    if (s_.dropout) list_.take(h.dropout + " gradient", stream());
    if (s_.mixed) list_.take(h.branch + " gradient", narrow());
    if (s_.mixed && s_.dropout) list_.give(h.dropout + " gradient");
    if (s_.sharded) list_.take(h.branch + " gradient, all rows", narrow_whole());
    list_.take(h.inner + " gradient", s_.R * h.inner_columns * s_.c);
  }

  void column_gradient(const Half& h) {
    const std::string x = h.norm + " output", dx = x + " gradient";
    const bool gathers = s_.sharded && !split_;
    if (gathers && s_.selective) make_norm_again(h);
    if (gathers) list_.take(x + ", all rows", narrow_whole());
    list_.take(s_.sharded ? dx + ", partial sums" : dx, narrow_whole());
    if (gathers && s_.selective) list_.give(x);
    if (s_.sharded) list_.take(dx, narrow());
    if (!queued_) {
      row_weights(h);
      column_weights(h);
      list_.give(h.wide + " gradient");
      if (!s_.selective) list_.give(x);
    }
    if (gathers) list_.give(x + ", all rows");
    if (s_.sharded) list_.give(dx + ", partial sums");
  }

  void norm_gradient(const Half& h) {
    const std::string from = h.from + " gradient", to = h.to + " gradient";
    if (split_ && branch_shares_stream()) {
      list_.take(h.norm + " input gradient", stream());
      list_.take(from, stream());
      list_.give(h.norm + " input gradient");
    } else {
      list_.rename(to, from);
    }
    list_.give(h.norm + " output gradient");
    list_.give(h.norm + " statistics");
    if (!(queued_ && s_.selective)) list_.give(h.from);
  }

  // The queued weight gradient of the row linear, and what only it held.
  void row_weights(const Half& h) {
    if (remade(h)) {
      list_.take(h.inner, s_.R * h.inner_columns * s_.c);
      list_.give(h.inner);
      if (!drains_) list_.give(h.wide);
    } else if (!drains_ || !h.attention) {
      list_.give(h.inner);
    }
    if (s_.sharded) list_.give(h.branch + " gradient, all rows");
    if (s_.mixed)
      list_.give(h.branch + " gradient");
    else if (s_.dropout)
      list_.give(h.dropout + " gradient");
    else if (split_)
      list_.give(h.to + " gradient");
  }

  void column_weights(const Half& h) {
    const std::string x = h.norm + " output";
    const bool gathers = s_.sharded && split_, makes = s_.selective && (!s_.sharded || split_);
    if (makes) make_norm_again(h);
    if (gathers) list_.take(x + ", all rows", narrow_whole());
    if (makes) list_.give(x);
    if (gathers) list_.give(x + ", all rows");
    if (!queued_) return;  // the running tape entry holds the operands as well
    list_.give(h.wide + " gradient");
    list_.give(s_.selective ? h.from : x);
  }

  void make_norm_again(const Half& h) {
    list_.take(h.norm + " output", narrow());
    list_.take(h.norm + " statistics, again", s_.r * s_.stats * s_.w);
    list_.give(h.norm + " statistics, again");
  }

  bool norms_heads(const Half& h) const { return h.attention && s_.qk_norm; }
  // What attention or the activation takes.
  std::string operand(const Half& h) const { return norms_heads(h) ? "normed " + h.wide : h.wide; }
  // Selective recomputation keeps the way to make an activation's output again: its input.
  bool remade(const Half& h) const { return s_.selective && !h.attention; }
  // The branch's gradient is the stream's own tensor.
  bool branch_shares_stream() const { return !s_.mixed && !s_.dropout; }

  const LayerSizes& s_;
  bool split_;
  bool queued_;  // a column linear's weight gradient waits for longer than its own backward
  bool drains_;  // a row linear's does not
  Half attention_, mlp_;
  MemoryScript list_;
};

}  // namespace

LayerMemory decoder_block_memory(const LayerSizes& sizes) {
  return block_memory<BlockScript>([&](bool split) { return BlockScript(sizes, split); });
}

}  // namespace trireme
