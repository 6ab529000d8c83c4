// Legend as in ops.h.
#include "framework/autograd/ops.h"

#include <utility>

#include "framework/base/error.h"

namespace trireme {

namespace {

Tensor activations(const Context& ctx, Shape shape, DType dtype) {
  return ctx.backend.allocate(shape, dtype, MemoryKind::kActivations);
}

DType wider(DType a, DType b) { return size_of(a) >= size_of(b) ? a : b; }

}  // namespace

Tensor in_type(Backend& backend, const Tensor& x, DType dtype) {
  if (!x || x.dtype() == dtype) return x;
  Tensor converted = backend.allocate(x.shape(), dtype, MemoryKind::kActivations);
  backend.kernels()->cast(x, converted);
  return converted;
}

Tensor take_or_zeros(const Context& ctx, GradSlot& slot, const Shape& shape, DType dtype) {
  if (Tensor grad = slot.take()) return in_type(ctx.backend, grad, dtype);
  return ctx.backend.zeros(shape, dtype, MemoryKind::kActivations);
}

Var add(const Context& ctx, const Var& a, const Var& b) {
  check(a.value.shape() == b.value.shape(), "add: shapes ", a.value.shape(), " and ",
        b.value.shape(), " differ");
  Tensor sum = activations(ctx, a.value.shape(), wider(a.value.dtype(), b.value.dtype()));
  ctx.backend.kernels()->add(a.value, b.value, sum);
  Var y = make_var(sum, ctx.tape && (a.wants_grad() || b.wants_grad()));
  if (y.wants_grad())
    ctx.tape->record([&backend = ctx.backend, a = a.grad, b = b.grad, y = y.grad] {
      Tensor dy = y->take();
      if (!dy) return;
      if (a) a->add(backend, dy);
      if (b) b->add(backend, std::move(dy));
    });
  return y;
}

Var as_type(const Context& ctx, const Var& x, DType dtype) {
  if (x.value.dtype() == dtype) return x;
  Var y = make_var(in_type(ctx.backend, x.value, dtype), ctx.tape && x.wants_grad());
  if (y.wants_grad())
    ctx.tape->record([&backend = ctx.backend, x = x.grad, slot = y.grad] {
      if (Tensor dy = slot->take()) x->add(backend, std::move(dy));
    });
  return y;
}

Var reshape(const Context& ctx, const Var& x, const Shape& shape) {
  Var y = make_var(x.value.reshaped(shape), ctx.tape && x.wants_grad());
  if (y.wants_grad())
    ctx.tape->record([&backend = ctx.backend, before = x.value.shape(), x = x.grad, slot = y.grad] {
      if (Tensor dy = slot->take()) x->add(backend, dy.reshaped(before));
    });
  return y;
}

namespace {

// Shared by both norms: y, statistics, and how to make y again.
struct NormForward {
  Tensor y, stats;
};

// Where dx goes: into a gradient that may be added to, or a new tensor.
struct DxTarget {
  Tensor dx;
  bool accumulate;
};

DxTarget dx_target(Backend& backend, GradSlot& slot, const Shape& shape, DType dtype) {
  if (Tensor owned = slot.take_if_owned(dtype)) return {std::move(owned), true};
  return {backend.allocate(shape, dtype, MemoryKind::kActivations), false};
}

Tensor layer_norm_again(Backend& backend, const Tensor& x, Parameter& weight, Parameter& bias,
                        double eps, DType compute) {
  Tensor y = backend.allocate(x.shape(), compute, MemoryKind::kActivations);
  Tensor stats =
      backend.allocate({x.rows(), 2}, accumulation_type(compute), MemoryKind::kActivations);
  backend.kernels()->layer_norm(x, weight.value, bias.value, eps, y, stats);
  return y;
}

Tensor rms_norm_again(Backend& backend, const Tensor& x, Parameter& weight, const RmsNorm& n,
                      DType compute) {
  Tensor y = backend.allocate(x.shape(), compute, MemoryKind::kActivations);
  Tensor stats =
      backend.allocate({x.rows(), 1}, accumulation_type(compute), MemoryKind::kActivations);
  backend.kernels()->rms_norm(x, weight.value, n, y, stats);
  return y;
}

// A trainable parameter's gradient, or scratch of its shape for a frozen one.
struct GradTarget {
  Tensor grad;
  bool accumulate;
};

GradTarget grad_target(Backend& backend, Parameter& p, DType wide) {
  if (p.spec().trainable) return {p.grad, p.accumulate()};
  return {backend.allocate(p.spec().shape, wide, MemoryKind::kActivations), false};
}

// Two parameters that one kernel serves in one way: scratch of a frozen one follows the other.
void follow(Backend& backend, GradTarget& scratch, const GradTarget& trained) {
  if (trained.accumulate && !scratch.accumulate) backend.kernels()->fill(scratch.grad, 0.0);
  scratch.accumulate = trained.accumulate;
}

}  // namespace

Var layer_norm(const Context& ctx, const Var& x, Parameter& weight, Parameter& bias, double eps) {
  Tensor y = activations(ctx, x.value.shape(), ctx.compute);
  Tensor stats = activations(ctx, {x.value.rows(), 2}, ctx.wide());
  ctx.backend.kernels()->layer_norm(x.value, weight.value, bias.value, eps, y, stats);
  Var out =
      make_var(y, ctx.tape && (x.wants_grad() || weight.spec().trainable || bias.spec().trainable));
  if (!out.wants_grad()) return out;
  if (ctx.remake_cheap_outputs)
    out.remake = [&backend = ctx.backend, x = x.value, &weight, &bias, eps, compute = ctx.compute] {
      return layer_norm_again(backend, x, weight, bias, eps, compute);
    };
  ctx.tape->record([&backend = ctx.backend, x, &weight, &bias, stats, slot = out.grad,
                    wide = ctx.wide()] {
    Tensor dy = slot->take();
    if (!dy) return;
    GradSlot unused;
    DxTarget to = dx_target(backend, x.grad ? *x.grad : unused, x.value.shape(), wide);
    GradTarget dw = grad_target(backend, weight, wide), db = grad_target(backend, bias, wide);
    if (!bias.spec().trainable) follow(backend, db, dw);
    if (!weight.spec().trainable) follow(backend, dw, db);
    backend.train_kernels()->layer_norm_backward(x.value, weight.value, stats, dy, to.dx,
                                                 to.accumulate, dw.grad, db.grad, dw.accumulate);
    if (x.grad) x.grad->add(backend, std::move(to.dx));
  });
  return out;
}

Var rms_norm(const Context& ctx, const Var& x, Parameter& weight, const RmsNorm& n) {
  Tensor y = activations(ctx, x.value.shape(), ctx.compute);
  Tensor stats = activations(ctx, {x.value.rows(), 1}, ctx.wide());
  ctx.backend.kernels()->rms_norm(x.value, weight.value, n, y, stats);
  Var out = make_var(y, ctx.tape && (x.wants_grad() || weight.spec().trainable));
  if (!out.wants_grad()) return out;
  if (ctx.remake_cheap_outputs)
    out.remake = [&backend = ctx.backend, x = x.value, &weight, n, compute = ctx.compute] {
      return rms_norm_again(backend, x, weight, n, compute);
    };
  ctx.tape->record(
      [&backend = ctx.backend, x, &weight, n, stats, slot = out.grad, wide = ctx.wide()] {
        Tensor dy = slot->take();
        if (!dy) return;
        GradSlot unused;
        DxTarget to = dx_target(backend, x.grad ? *x.grad : unused, x.value.shape(), wide);
        GradTarget dw = grad_target(backend, weight, wide);
        backend.train_kernels()->rms_norm_backward(x.value, weight.value, n, stats, dy, to.dx,
                                                   to.accumulate, dw.grad, dw.accumulate);
        if (x.grad) x.grad->add(backend, std::move(to.dx));
      });
  return out;
}

Var head_norm(const Context& ctx, const Var& qkv, const HeadNorm& n, Parameter& query_weight,
              Parameter& key_weight) {
  Tensor y = activations(ctx, qkv.value.shape(), qkv.value.dtype());
  Tensor stats = activations(ctx, {qkv.value.rows(), n.heads + n.kv_heads}, ctx.wide());
  ctx.backend.kernels()->head_norm(n, qkv.value, query_weight.value, key_weight.value, y, stats);
  Var out = make_var(y, ctx.tape && (qkv.wants_grad() || query_weight.spec().trainable ||
                                     key_weight.spec().trainable));
  if (!out.wants_grad()) return out;
  ctx.tape->record([&backend = ctx.backend, qkv, n, &query_weight, &key_weight, stats,
                    slot = out.grad, wide = ctx.wide()] {
    Tensor dy = slot->take();
    if (!dy) return;
    Tensor dqkv =
        dy.sole_owner() ? dy : backend.allocate(dy.shape(), dy.dtype(), MemoryKind::kActivations);
    GradTarget dq = grad_target(backend, query_weight, wide);
    GradTarget dk = grad_target(backend, key_weight, wide);
    backend.train_kernels()->head_norm_backward(n, qkv.value, query_weight.value, key_weight.value,
                                                stats, dy, dqkv, dq.grad, dq.accumulate, dk.grad,
                                                dk.accumulate);
    if (qkv.grad) qkv.grad->add(backend, std::move(dqkv));
  });
  return out;
}

Var activation(const Context& ctx, const Var& x, Activation act, bool gated) {
  const std::int64_t width = x.value.columns() / (gated ? 2 : 1);
  const Shape shape{x.value.rows(), width};
  Tensor y = activations(ctx, shape, x.value.dtype());
  ctx.backend.kernels()->activation(act, gated, x.value, y);
  Var out = make_var(y, ctx.tape && x.wants_grad());
  if (!out.wants_grad()) return out;
  if (ctx.remake_cheap_outputs)
    out.remake = [&backend = ctx.backend, x = x.value, shape, act, gated] {
      Tensor again = backend.allocate(shape, x.dtype(), MemoryKind::kActivations);
      backend.kernels()->activation(act, gated, x, again);
      return again;
    };
  ctx.tape->record([&backend = ctx.backend, x, act, gated, slot = out.grad] {
    Tensor dy = slot->take();
    if (!dy) return;
    Tensor dx = backend.allocate(x.value.shape(), x.value.dtype(), MemoryKind::kActivations);
    backend.train_kernels()->activation_backward(act, gated, x.value, dy, dx);
    x.grad->add(backend, std::move(dx));
  });
  return out;
}

Var dropout(const Context& ctx, const Var& x, const DropoutSite& where) {
  if (!ctx.rng || where.p == 0) return x;
  const Dropout spec{.key = ctx.rng->child(where.site),
                     .threshold = dropout_threshold(where.p),
                     .scale = 1.0 / (1.0 - where.p),
                     .first_row = where.first_row,
                     .first_column = 0,
                     .total_columns = x.value.columns()};
  Tensor y = activations(ctx, x.value.shape(), x.value.dtype());
  ctx.backend.kernels()->dropout(spec, x.value, y);
  Var out = make_var(y, ctx.tape && x.wants_grad());
  if (out.wants_grad())
    ctx.tape->record([&backend = ctx.backend, x = x.grad, spec, slot = out.grad] {
      Tensor dy = slot->take();
      if (!dy) return;
      Tensor dx =
          dy.sole_owner() ? dy : backend.allocate(dy.shape(), dy.dtype(), MemoryKind::kActivations);
      backend.kernels()->dropout(spec, dy, dx);
      x->add(backend, std::move(dx));
    });
  return out;
}

Var rotary(const Context& ctx, const Var& qkv, const Rotary& spec) {
  ctx.backend.kernels()->rotary(spec, qkv.value);
  Var out = make_var(qkv.value, ctx.tape && qkv.wants_grad());
  if (out.wants_grad())
    ctx.tape->record([&backend = ctx.backend, x = qkv.grad, spec, slot = out.grad] {
      Tensor dy = slot->take();
      if (!dy) return;
      check(dy.sole_owner(), "rotary: the gradient is shared, so it cannot be rotated in place");
      Rotary back = spec;
      back.inverse = !spec.inverse;
      backend.kernels()->rotary(back, dy);
      x->add(backend, std::move(dy));
    });
  return out;
}

Var attention(const Context& ctx, const Var& qkv, Attention spec, double p, std::uint64_t site) {
  if (ctx.rng && p > 0)
    spec.dropout = Dropout{
        .key = ctx.rng->child(site), .threshold = dropout_threshold(p), .scale = 1.0 / (1.0 - p)};
  Tensor y = activations(ctx, {qkv.value.rows(), spec.heads * spec.head_dim}, qkv.value.dtype());
  Tensor lse = activations(ctx, {spec.batch * spec.heads, spec.tokens}, ctx.wide());
  ctx.backend.kernels()->attention(spec, qkv.value, y, lse);
  Var out = make_var(y, ctx.tape && qkv.wants_grad());
  if (out.wants_grad())
    ctx.tape->record(
        [&backend = ctx.backend, qkv, spec, y, lse, slot = out.grad, compute = ctx.compute] {
          Tensor dy = in_type(backend, slot->take(), compute);
          if (!dy) return;
          Tensor dqkv =
              backend.allocate(qkv.value.shape(), qkv.value.dtype(), MemoryKind::kActivations);
          backend.train_kernels()->attention_backward(spec, qkv.value, y, lse, dy, dqkv);
          qkv.grad->add(backend, std::move(dqkv));
        });
  return out;
}

}  // namespace trireme
