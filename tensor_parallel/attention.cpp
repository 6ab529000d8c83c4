// Legend as in attention.h.
#include "tensor_parallel/attention.h"

#include <cmath>

#include "framework/autograd/inference_pass.h"
#include "framework/autograd/ops.h"
#include "framework/base/error.h"
#include "framework/nn/norm.h"

namespace trireme {

std::string legal_divisors(std::int64_t n) {
  std::string out;
  for (std::int64_t d = 1; d <= n; ++d) {
    if (n % d != 0) continue;
    if (d > 1) out += d == n ? " or " : ", ";
    out += std::to_string(d);
  }
  return out;
}

namespace {

void check_heads(const AttentionOptions& o, int ranks) {
  check(o.heads > 0 && o.heads % ranks == 0, o.heads, " attention heads cannot be split over ",
        ranks, " tensor ranks; use ", legal_divisors(o.heads));
  check(o.kv_heads > 0 && o.heads % o.kv_heads == 0, o.kv_heads, " key/value heads cannot serve ",
        o.heads, " attention heads; use ", legal_divisors(o.heads));
  check(o.kv_heads % ranks == 0 || ranks % o.kv_heads == 0, o.kv_heads,
        " key/value heads cannot be split over ", ranks,
        " tensor ranks; the number of ranks must divide or be a multiple of the heads");
}

// Key or value heads of this rank: its share, or one head shared with its neighbours.
ColumnPart kv_part(const TensorGroup& group, const std::string& name, const AttentionOptions& o) {
  const std::int64_t rows = o.kv_heads * o.head_dim;
  if (o.kv_heads >= group.size()) return even_part(group, name, rows);
  const std::int64_t replicas = group.size() / o.kv_heads;
  return {.name = name,
          .logical_rows = rows,
          .global_row = group.rank() / replicas * o.head_dim,
          .rows = o.head_dim,
          .sum = SumGroup::kKvReplicas,
          .counts_in_norm = group.rank() % replicas == 0};
}

std::vector<ColumnPart> qkv_parts(const TensorGroup& group, const std::string& name,
                                  const AttentionOptions& o) {
  check_heads(o, group.size());
  return {even_part(group, name + ".q", o.heads * o.head_dim), kv_part(group, name + ".k", o),
          kv_part(group, name + ".v", o)};
}

std::unique_ptr<Parameter> head_norm_weight(const TensorGroup& group, const std::string& name,
                                            const AttentionOptions& o) {
  if (!o.qk_norm) return nullptr;
  return std::make_unique<Parameter>(
      replicated_vector(name + ".weight", o.head_dim, {Init::Kind::kOnes},
                        group.size() > 1 ? SumGroup::kTensor : SumGroup::kNone, group.rank() == 0));
}

}  // namespace

SelfAttention::SelfAttention(const TensorGroup& group, const std::string& name,
                             const AttentionOptions& o)
    : group_(group),
      options_(o),
      name_(name),
      local_heads_(o.heads / group.size()),
      local_kv_heads_(std::max<std::int64_t>(1, o.kv_heads / group.size())),
      qkv_(group,
           {.name = name + ".qkv",
            .inputs = o.columns,
            .bias = o.bias || o.qkv_bias,
            .init_std = o.init_std,
            .lora = o.lora},
           qkv_parts(group, name, o)),
      query_norm_(head_norm_weight(group, name + ".q_norm", o)),
      key_norm_(head_norm_weight(group, name + ".k_norm", o)),
      output_(group,
              {.name = name + ".output",
               .inputs = o.heads * o.head_dim,
               .bias = o.bias,
               .init_std = o.output_init_std,
               .lora = o.lora},
              o.columns, o.sequence_parallel) {}

void SelfAttention::visit(const ParameterFn& fn) {
  qkv_.visit(fn);
  if (query_norm_) {
    fn(*query_norm_);
    fn(*key_norm_);
  }
  output_.visit(fn);
}

Var SelfAttention::forward(const Context& ctx, const Var& x) {
  Var qkv = qkv_.forward(ctx, x);  // (R, (H + 2G) / t * D)
  if (query_norm_)
    qkv = head_norm(ctx, qkv,
                    {.heads = local_heads_,
                     .kv_heads = local_kv_heads_,
                     .head_dim = options_.head_dim,
                     .eps = options_.norm_eps},
                    *query_norm_, *key_norm_);
  return output_.forward(ctx, ctx.inference ? attend_cached(ctx, qkv) : attend(ctx, qkv));
}

// (R, (H + 2G) / t * D) -> (R, H / t * D)
Var SelfAttention::attend(const Context& ctx, const Var& projected) {
  Var qkv = projected;
  if (options_.rotary)
    qkv = rotary(ctx, qkv,
                 {.tokens = ctx.tokens,
                  .heads = local_heads_ + local_kv_heads_,
                  .head_dim = options_.head_dim,
                  .theta = options_.rope_theta,
                  .scaling = options_.rope_scaling});
  return attention(ctx, qkv,
                   {.batch = ctx.samples,
                    .tokens = ctx.tokens,
                    .heads = local_heads_,
                    .kv_heads = local_kv_heads_,
                    .head_dim = options_.head_dim,
                    .scale = 1.0 / std::sqrt(static_cast<double>(options_.head_dim)),
                    .first_sample = ctx.first_sample,
                    .first_head = local_heads_ * group_.rank(),
                    .total_heads = options_.heads,
                    .window = options_.window,
                    .document_starts = ctx.document_starts},
                   options_.dropout, RngKey{}.child(name_).value);
}

// The same with keys and values of earlier positions from the cache, where those of the rows go.
Var SelfAttention::attend_cached(const Context& ctx, const Var& qkv) {
  check(!ctx.tape, name_, ": a pass with a cache is not trained");
  const PagedAttention spec{.heads = local_heads_,
                            .kv_heads = local_kv_heads_,
                            .head_dim = options_.head_dim,
                            .scale = 1.0 / std::sqrt(static_cast<double>(options_.head_dim)),
                            .window = options_.window,
                            .rotary = options_.rotary,
                            .theta = options_.rope_theta,
                            .scaling = options_.rope_scaling,
                            .sequences = ctx.inference->sequences()};
  Tensor y = ctx.backend.allocate({qkv.value.rows(), local_heads_ * options_.head_dim}, ctx.compute,
                                  MemoryKind::kActivations);
  ctx.inference->attend(ctx.backend, spec, qkv.value, y);
  return {y};
}

}  // namespace trireme
