#include "zero/sharded.h"

namespace trireme {

Var Sharded::forward(const Context& ctx, const Var& x) {
  for (Unit* unit : units_) unit->gather();
  if (ctx.tape)  // runs last in backward: weight gradients queued before it are done when units end
                 // theirs
    ctx.tape->record([this, tape = ctx.tape] {
      tape->later([this] {
        for (Unit* unit : units_) unit->end_backward();
      });
      tape->drain_unless_split();
    });
  Var y = child_->forward(ctx, x);
  if (ctx.tape)
    ctx.tape->record([this] {
      for (Unit* unit : units_) unit->begin_backward();
    });
  for (Unit* unit : units_) unit->release();
  return y;
}

}  // namespace trireme
