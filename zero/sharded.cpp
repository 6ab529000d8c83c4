#include "zero/sharded.h"

namespace trireme {

Var Sharded::forward(const Context& ctx, const Var& x) {
  enter();
  const bool kept = ctx.tape && ctx.recomputing;
  if (ctx.tape) record_end(ctx);
  Var y = child_->forward(ctx, x);
  if (ctx.tape)
    ctx.tape->record([this, kept] {
      if (!kept) enter();
      for (Unit* unit : units_) unit->begin_backward();
    });
  if (!kept) leave();
  return y;
}

// Runs last in backward. Releasing weights is part of it, unless queued weight gradients make norm
// outputs again and so need them; reducing gradients comes after that queue.
void Sharded::record_end(const Context& ctx) {
  ctx.tape->record([this, tape = ctx.tape, late = ctx.remake_cheap_outputs] {
    if (!late) leave();
    tape->later([this, late] {
      if (late) leave();
      for (Unit* unit : units_) unit->end_backward();
    });
    tape->drain_unless_split();
  });
}

void Sharded::enter() {
  if (residency_) residency_->enter(entry_);
  for (Unit* unit : units_) unit->gather();
}

void Sharded::leave() {
  for (Unit* unit : units_) unit->release();
  if (residency_) residency_->leave(entry_);
}

}  // namespace trireme
