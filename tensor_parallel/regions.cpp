#include "tensor_parallel/regions.h"

namespace trireme {

bool shards_rows(const Context& ctx, const TensorGroup& group) {
  return ctx.sequence_parallel && group.size() > 1;
}

std::int64_t first_global_row(const Context& ctx, const TensorGroup& group, std::int64_t local_rows,
                              std::int64_t per_sample) {
  return ctx.first_sample * per_sample + (shards_rows(ctx, group) ? group.rank() * local_rows : 0);
}

GatheredRows start_gather_rows(const Context& ctx, const TensorGroup& group, const Tensor& shard) {
  Tensor whole = ctx.backend.allocate({shard.rows() * group.size(), shard.columns()}, shard.dtype(),
                                      MemoryKind::kActivations);
  return {whole, group.comm->all_gather(shard, whole)};
}

Tensor gather_rows(const Context& ctx, const TensorGroup& group, const Tensor& shard) {
  GatheredRows gathered = start_gather_rows(ctx, group, shard);
  gathered.pending.wait();
  return gathered.whole;
}

ScatteredRows start_reduce_rows(const Context& ctx, const TensorGroup& group,
                                const Tensor& partial) {
  Tensor shard = ctx.backend.allocate({partial.rows() / group.size(), partial.columns()},
                                      partial.dtype(), MemoryKind::kActivations);
  return {shard, group.comm->reduce_scatter(partial, shard)};
}

Tensor sum_forward(const Context& ctx, const TensorGroup& group, const Tensor& partial) {
  if (group.size() == 1) return partial;
  if (shards_rows(ctx, group)) {
    ScatteredRows scattered = start_reduce_rows(ctx, group, partial);
    scattered.pending.wait();
    return scattered.shard;
  }
  (ctx.inference ? group.comm->quick_all_reduce(partial) : group.comm->all_reduce(partial)).wait();
  return partial;
}

Tensor whole_gradient(const Context& ctx, const TensorGroup& group, const Tensor& dy) {
  return shards_rows(ctx, group) ? gather_rows(ctx, group, dy) : dy;
}

Tensor sum_backward(const Context& ctx, const TensorGroup& group, const Tensor& partial) {
  if (group.size() == 1) return partial;
  if (shards_rows(ctx, group)) {
    ScatteredRows scattered = start_reduce_rows(ctx, group, partial);
    ctx.tape->drain_unless_split();
    scattered.pending.wait();
    return scattered.shard;
  }
  Pending pending = group.comm->all_reduce(partial);
  ctx.tape->drain_unless_split();
  pending.wait();
  return partial;
}

}  // namespace trireme
