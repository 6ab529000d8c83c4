// A next-byte classifier: the embeddings of a window of bytes, concatenated, through column/row
// linears; one label per sample. It shows that pipelines, recomputation and ZeRO serve any list of
// layers.
//
// Legend: B samples, S bytes of a window, E embedding columns, F hidden width of a block, V
// classes.
#include "framework/autograd/ops.h"
#include "framework/base/error.h"
#include "recipes/models/layer_list.h"
#include "tensor_parallel/embedding.h"
#include "tensor_parallel/head.h"
#include "tensor_parallel/mlp.h"

namespace trireme {

namespace {

constexpr double kInitStd = 0.02;

// ids (B * S) -> (B, S * E) stream
class WindowEmbedding : public Module {
 public:
  WindowEmbedding(const ModelOptions& o, BuildContext& build)
      : embedding_(build.tensor,
                   {.vocab = o.vocab, .columns = o.hidden, .init_std = 1.0, .dropout = o.dropout}) {
  }

  Var forward(const Context& ctx, const Var& ids) override {
    Var x = embedding_.forward(ctx, ids);  // (B * S, E)
    return reshape(ctx, x, {ctx.samples, ctx.tokens * x.value.columns()});
  }
  void visit(const ParameterFn& fn) override { embedding_.visit(fn); }

 private:
  VocabEmbedding embedding_;
};

// x -> dropout(mlp(x)), with x added from the second block on. (B, inputs) -> (B, E) stream
class MlpBlock : public Module {
 public:
  MlpBlock(const ModelOptions& o, const BuildContext& build, std::int64_t index)
      : name_("layers." + std::to_string(index)),
        dropout_(o.dropout),
        residual_(index > 0),
        mlp_(build.tensor, name_ + ".mlp",
             {.columns = o.hidden,
              .inputs = index == 0 ? o.sequence * o.hidden : o.hidden,
              .ffn = o.ffn,
              .activation = o.activation,
              .gated = o.gated,
              .bias = o.bias,
              .init_std = kInitStd,
              .output_init_std = kInitStd}) {}

  Var forward(const Context& ctx, const Var& x) override {
    Var y = dropout(ctx, mlp_.forward(ctx, x),
                    {.site = RngKey{}.child(name_ + ".dropout").value,
                     .p = dropout_,
                     .first_row = ctx.first_sample});
    return residual_ ? add(ctx, x, y) : as_type(ctx, y, ctx.wide());
  }
  void visit(const ParameterFn& fn) override { mlp_.visit(fn); }

 private:
  std::string name_;
  double dropout_;
  bool residual_;
  Mlp mlp_;
};

ModulePtr build_classes(const ModelOptions& o, const BuildContext& build) {
  return std::make_unique<Head>(
      build.tensor, HeadOptions{.vocab = o.vocab, .columns = o.hidden, .init_std = kInitStd},
      nullptr);
}

double block_flops(const ModelOptions& o, std::int64_t index) {
  const auto inputs = static_cast<double>(index == 0 ? o.sequence * o.hidden : o.hidden);
  const auto f = static_cast<double>(o.ffn), c = static_cast<double>(o.hidden);
  return 2 * ((o.gated ? 2 : 1) * inputs * f + f * c);
}

}  // namespace

std::vector<LayerSpec> mlp_layers(const ModelOptions& o) {
  check(!o.tie_embeddings,
        "model: the mlp family has no tied embeddings; use model.tie_embeddings = false");
  std::vector<LayerSpec> list;
  list.push_back(
      {"embedding", static_cast<double>(o.sequence * o.hidden), false,
       Cut{.rows_per_sample = 1, .columns = o.sequence * o.hidden},
       [o](BuildContext& b) -> ModulePtr { return std::make_unique<WindowEmbedding>(o, b); },
       embedding_moves(o.sequence, o.hidden)});
  const Cut cut{.rows_per_sample = 1, .columns = o.hidden};
  for (std::int64_t i = 0; i < o.layers; ++i)
    list.push_back(
        {"layers." + std::to_string(i), block_flops(o, i), true, cut,
         [o, i](BuildContext& b) -> ModulePtr { return std::make_unique<MlpBlock>(o, b, i); },
         linear_pair_moves(1, i == 0 ? o.sequence * o.hidden : o.hidden, o.hidden)});
  list.push_back({"head", 2.0 * static_cast<double>(o.hidden * o.vocab), false, Cut{},
                  [o](BuildContext& b) { return build_classes(o, b); },
                  head_moves(1, o.hidden, HeadOptions{}.chunk_rows)});
  return list;
}

}  // namespace trireme
