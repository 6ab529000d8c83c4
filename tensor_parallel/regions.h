// Tensor-parallel regions: which group, and how rows move between a sharded and a whole region.
//
// f and g of Megatron-LM (arXiv 1909.08053, section 3): f copies forward and sums backward, g sums
// forward and copies backward. With sequence parallelism (arXiv 2205.05198, section 4.2) they
// become all-gather / reduce-scatter over rows. Because only per-token operations run on the
// shards, a shard is simply a slice of the (R, C) matrix's rows.
#pragma once

#include "framework/autograd/context.h"
#include "framework/comm/communicator.h"

namespace trireme {

// The tensor ranks of this rank's mesh row. Must outlive the modules that keep it.
struct TensorGroup {
  Communicator* comm = nullptr;
  int rank() const { return comm->rank(); }
  int size() const { return comm->size(); }
};

// Are rows sharded in this call?
bool shards_rows(const Context& ctx, const TensorGroup& group);
// Global row index of x's first row, where x has `local_rows` rows of this micro-batch;
// `per_sample` rows belong to a sample.
std::int64_t first_global_row(const Context& ctx, const TensorGroup& group, std::int64_t local_rows,
                              std::int64_t per_sample);

// (R / t, C) of each rank -> (R, C).
struct GatheredRows {
  Tensor whole;
  Pending pending;
};
GatheredRows start_gather_rows(const Context& ctx, const TensorGroup& group, const Tensor& shard);
Tensor gather_rows(const Context& ctx, const TensorGroup& group, const Tensor& shard);
// Partial sums (R, C) -> this rank's rows (R / t, C) of the sum.
struct ScatteredRows {
  Tensor shard;
  Pending pending;
};
ScatteredRows start_reduce_rows(const Context& ctx, const TensorGroup& group,
                                const Tensor& partial);

// g forward: the partial sums (R, C) become the sum, whole or (with sharded rows) this rank's
// slice.
Tensor sum_forward(const Context& ctx, const TensorGroup& group, const Tensor& partial);
// g backward: the gradient of all rows, from the whole or sharded one.
Tensor whole_gradient(const Context& ctx, const TensorGroup& group, const Tensor& dy);

// f backward: sums partial input gradients over the ranks while the tape's queued weight gradients
// run; returns the whole sum or this rank's rows.
Tensor sum_backward(const Context& ctx, const TensorGroup& group, const Tensor& partial);

}  // namespace trireme
