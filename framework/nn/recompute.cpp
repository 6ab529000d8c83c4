#include "framework/nn/recompute.h"

#include "framework/base/error.h"

namespace trireme {

ActivationStore::Fetch KeepOnDevice::keep(Tensor x) {
  return [x = std::move(x)]() mutable { return std::exchange(x, Tensor()); };
}

namespace {

// One backward of the child: forward again on an inner tape, then that tape, in full or without the
// queued weight gradients, which then go to the outer tape as one piece of work.
void run_again(Module& child, Context ctx, Tape& outer, const Var& x, Tensor dy) {
  auto inner = std::make_shared<Tape>();
  ctx.tape = inner.get();
  ctx.recomputing = true;
  Var y = child.forward(ctx, x);
  if (dy) {
    check(y.wants_grad(), "recompute: the child's output has no gradient slot");
    y.grad->add(ctx.backend, std::move(dy));
  }
  y.value = Tensor();
  if (outer.split()) {
    inner->run_backward_input();
    outer.later([inner] { inner->drain(); });
  } else {
    inner->run_backward();
  }
}

}  // namespace

Var Recompute::forward(const Context& ctx, const Var& x) {
  // Without anything to train below or inside, nothing is kept either; but wrappers inside still
  // count their backward pass.
  if (!ctx.tape || !(x.wants_grad() || wants_grad(*child_))) return child_->forward(ctx, x);
  Context first = ctx;
  first.tape = nullptr;
  Var y = child_->forward(first, {x.value});
  y.grad = std::make_shared<GradSlot>();
  // The entry runs even without an output gradient: the child may communicate.
  ctx.tape->record([this, ctx, fetch = store_.keep(x.value), upstream = x.grad, slot = y.grad] {
    Var input = make_var(fetch(), upstream != nullptr);
    run_again(*child_, ctx, *ctx.tape, input, slot->take());
    if (upstream)
      if (Tensor dx = input.grad->take()) upstream->add(ctx.backend, std::move(dx));
  });
  return y;
}

}  // namespace trireme
