// Local operations with their gradients: shape check, output allocation, kernel call, one record.
// Ops know no device.
//
// Legend: R rows (samples x tokens, or this rank's slice of them under sequence parallelism), C
// channels, F feed-forward width, H, G, D query heads, key/value heads, head size. "stream" is the
// wide type of the compute type (f32 for bf16).
#pragma once

#include "framework/autograd/context.h"
#include "framework/autograd/parameter.h"

namespace trireme {

// a + b, (R, C); the result has the wider type of the two.
Var add(const Context& ctx, const Var& a, const Var& b);

// Norms over the columns, x (R, C) stream -> (R, C) compute; statistics in the wide type.
Var layer_norm(const Context& ctx, const Var& x, Parameter& weight, Parameter& bias, double eps);
Var rms_norm(const Context& ctx, const Var& x, Parameter& weight, const RmsNorm& n);
// Norms query and key heads of qkv (R, (H + 2G) * D), before positions rotate them. The heads are
// this rank's, so the weights' gradients are partial sums over the tensor ranks.
Var head_norm(const Context& ctx, const Var& qkv, const HeadNorm& n, Parameter& query_weight,
              Parameter& key_weight);

// (R, F) -> (R, F), or gated (R, 2F) -> (R, F).
Var activation(const Context& ctx, const Var& x, Activation act, bool gated);

// Identity unless ctx.rng and p > 0. `site` makes this place's stream its own; first_row is the
// global row of x's first row.
struct DropoutSite {
  std::uint64_t site = 0;
  double p = 0;
  std::int64_t first_row = 0;
};
Var dropout(const Context& ctx, const Var& x, const DropoutSite& where);

// Rotates the query and key heads of qkv (R, (H + 2G) * D) in place: nobody else may hold its
// value.
Var rotary(const Context& ctx, const Var& qkv, const Rotary& spec);

// Causal attention of qkv -> (R, H * D). `p` > 0 with ctx.rng drops probabilities; heads of other
// ranks are counted by the spec.
Var attention(const Context& ctx, const Var& qkv, Attention spec, double p, std::uint64_t site);

// The same values in another type, or seen as another shape.
Var as_type(const Context& ctx, const Var& x, DType dtype);
Var reshape(const Context& ctx, const Var& x, const Shape& shape);

// A tensor in the given type: itself if it has it already.
Tensor in_type(Backend& backend, const Tensor& x, DType dtype);

// The gradient of `y` for an entry that must run in any case (it communicates): zeros if none came.
Tensor take_or_zeros(const Context& ctx, GradSlot& slot, const Shape& shape, DType dtype);

}  // namespace trireme
