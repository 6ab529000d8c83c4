#include "zero/sharded.h"

namespace trireme {

Var Sharded::forward(const Context& ctx, const Var& x) {
  for (Unit* unit : units_) unit->gather();
  const bool kept = ctx.tape && ctx.recomputing;
  if (ctx.tape) record_end(ctx);
  Var y = child_->forward(ctx, x);
  if (ctx.tape)
    ctx.tape->record([this, kept] {
      for (Unit* unit : units_) {
        if (!kept) unit->gather();
        unit->begin_backward();
      }
    });
  if (!kept) release();
  return y;
}

// Runs last in backward. Releasing weights is part of it, unless queued weight gradients make norm
// outputs again and so need them; reducing gradients comes after that queue.
void Sharded::record_end(const Context& ctx) {
  ctx.tape->record([this, tape = ctx.tape, late = ctx.remake_cheap_outputs] {
    if (!late) release();
    tape->later([this, late] {
      if (late) release();
      for (Unit* unit : units_) unit->end_backward();
    });
    tape->drain_unless_split();
  });
}

void Sharded::release() {
  for (Unit* unit : units_) unit->release();
}

}  // namespace trireme
