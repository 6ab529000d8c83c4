// GPT-2- and Llama-shaped decoders as lists of layers.
#include <cmath>

#include "framework/autograd/ops.h"
#include "framework/base/error.h"
#include "recipes/models/layer_list.h"
#include "tensor_parallel/attention.h"
#include "tensor_parallel/embedding.h"
#include "tensor_parallel/head.h"
#include "tensor_parallel/mlp.h"

namespace trireme {

namespace {

constexpr double kInitStd = 0.02;  // GPT-2; residual outputs are divided by sqrt(2 layers)

NormOptions norm_options(const ModelOptions& o, const BuildContext& build) {
  return {.kind = o.norm,
          .columns = o.hidden,
          .eps = o.norm_eps,
          .sum = build.sequence_parallel && build.tensor.size() > 1 ? SumGroup::kTensor
                                                                    : SumGroup::kNone,
          .counts_in_norm = build.tensor.rank() == 0};
}

// Pre-norm block: x += dropout(attention(norm(x))); x += dropout(mlp(norm(x))). (R, C) stream ->
// the same.
class DecoderLayer : public Module {
 public:
  DecoderLayer(const ModelOptions& o, const BuildContext& build, const std::string& name)
      : group_(build.tensor),
        name_(name),
        dropout_(o.dropout),
        norm1_(name + ".norm1", norm_options(o, build)),
        norm2_(name + ".norm2", norm_options(o, build)),
        attention_(group_, name + ".attention", attention_options(o, build)),
        mlp_(group_, name + ".mlp", mlp_options(o, build)) {}

  Var forward(const Context& ctx, const Var& x) override {
    Var y = add(ctx, x, drop(ctx, attention_.forward(ctx, norm1_.forward(ctx, x)), ".dropout1"));
    return add(ctx, y, drop(ctx, mlp_.forward(ctx, norm2_.forward(ctx, y)), ".dropout2"));
  }

  void visit(const ParameterFn& fn) override {
    norm1_.visit(fn);
    attention_.visit(fn);
    norm2_.visit(fn);
    mlp_.visit(fn);
  }

 private:
  static double output_std(const ModelOptions& o) {
    return kInitStd / std::sqrt(2.0 * static_cast<double>(o.layers));
  }

  static AttentionOptions attention_options(const ModelOptions& o, const BuildContext& build) {
    return {.columns = o.hidden,
            .heads = o.heads,
            .kv_heads = o.kv_heads,
            .head_dim = o.head_dim,
            .bias = o.bias,
            .qkv_bias = o.qkv_bias,
            .qk_norm = o.qk_norm,
            .norm_eps = o.norm_eps,
            .rotary = o.rotary,
            .rope_theta = o.rope_theta,
            .rope_scaling = o.rope_scaling,
            .window = o.window,
            .dropout = o.dropout,
            .init_std = kInitStd,
            .output_init_std = output_std(o),
            .sequence_parallel = build.sequence_parallel,
            .lora = o.lora};
  }

  static MlpOptions mlp_options(const ModelOptions& o, const BuildContext& build) {
    return {.columns = o.hidden,
            .ffn = o.ffn,
            .activation = o.activation,
            .gated = o.gated,
            .bias = o.bias,
            .init_std = kInitStd,
            .output_init_std = output_std(o),
            .sequence_parallel = build.sequence_parallel,
            .lora = o.lora};
  }

  Var drop(const Context& ctx, const Var& x, const char* site) const {
    return dropout(ctx, x,
                   {.site = RngKey{}.child(name_ + site).value,
                    .p = dropout_,
                    .first_row = first_global_row(ctx, group_, x.value.rows(), ctx.tokens)});
  }

  TensorGroup group_;
  std::string name_;
  double dropout_;
  Norm norm1_, norm2_;
  SelfAttention attention_;
  Mlp mlp_;
};

std::int64_t position_rows(const ModelOptions& o) {
  return o.positions > 0 ? o.positions : o.sequence;
}

ModulePtr build_embedding(const ModelOptions& o, BuildContext& build) {
  const bool shared = o.tie_embeddings && build.split_ends;
  auto embedding = std::make_unique<VocabEmbedding>(
      build.tensor, EmbeddingOptions{.vocab = o.vocab,
                                     .columns = o.hidden,
                                     .positions = o.rotary ? 0 : position_rows(o),
                                     .scaled = o.scale_embeddings,
                                     .init_std = kInitStd,
                                     .dropout = o.dropout,
                                     .sequence_parallel = build.sequence_parallel,
                                     .table_sum = shared ? SumGroup::kEnds : SumGroup::kNone});
  build.table = &embedding->table();
  return embedding;
}

ModulePtr build_head(const ModelOptions& o, BuildContext& build) {
  HeadOptions head{
      .vocab = o.vocab, .columns = o.hidden, .norm = norm_options(o, build), .init_std = kInitStd};
  if (o.tie_embeddings &&
      !build.table) {  // the second copy: same name, same initial values, summed with the first
    head.table_name = "embedding.table";
    head.table_sum = SumGroup::kEnds;
    head.counts_in_norm = false;
  }
  return std::make_unique<Head>(build.tensor, head, o.tie_embeddings ? build.table : nullptr);
}

double block_flops(const ModelOptions& o) {
  const auto t = static_cast<double>(o.sequence), c = static_cast<double>(o.hidden);
  const auto q = static_cast<double>(o.heads * o.head_dim),
             kv = static_cast<double>(o.kv_heads * o.head_dim);
  const double linears =
      c * (q + 2 * kv) + q * c + (o.gated ? 3 : 2) * c * static_cast<double>(o.ffn);
  // Scores and values: 2 x 2 q t^2, the causal half of it; a window w leaves t w - w^2 / 2 pairs.
  const auto w = static_cast<double>(o.window);
  const double attention =
      o.window > 0 && o.window < o.sequence ? 4 * q * (t * w - w * w / 2) : 2 * q * t * t;
  return t * 2 * linears + attention;
}

}  // namespace

std::vector<LayerSpec> decoder_layers(const ModelOptions& o) {
  check(o.heads > 0 && o.head_dim > 0, "model: heads and head_dim must be at least 1, got ",
        o.heads, " and ", o.head_dim);
  check(!o.rotary || o.head_dim % 2 == 0, "model: rotary positions need an even head_dim, got ",
        o.head_dim);
  check(o.rotary || position_rows(o) >= o.sequence, "model: ", o.positions,
        " learned positions are fewer than the sequence's ", o.sequence, " tokens");
  check(o.rotary || !o.scale_embeddings,
        "model: scaled embeddings are supported with rotary positions only");
  check(o.window >= 0, "model: the window must be at least 1 token, or 0 for none, got ", o.window);
  const Cut cut{.rows_per_sample = o.sequence, .columns = o.hidden};
  const auto tokens = static_cast<double>(o.sequence), hidden = static_cast<double>(o.hidden);
  std::vector<LayerSpec> list;
  list.push_back({"embedding", tokens * hidden, false, cut,
                  [o](BuildContext& b) { return build_embedding(o, b); },
                  embedding_moves(o.sequence, o.hidden)});
  TensorMoves block = linear_pair_moves(o.sequence, o.hidden, o.hidden);  // attention
  block += linear_pair_moves(o.sequence, o.hidden, o.hidden);             // MLP
  for (std::int64_t i = 0; i < o.layers; ++i) {
    const std::string name = "layers." + std::to_string(i);
    list.push_back({name, block_flops(o), true, cut,
                    [o, name](BuildContext& b) -> ModulePtr {
                      return std::make_unique<DecoderLayer>(o, b, name);
                    },
                    block});
  }
  list.push_back({"head", tokens * 2 * hidden * static_cast<double>(o.vocab), false, Cut{},
                  [o](BuildContext& b) { return build_head(o, b); },
                  head_moves(o.sequence, o.hidden, HeadOptions{}.chunk_rows)});
  return list;
}

}  // namespace trireme
