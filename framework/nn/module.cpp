#include "framework/nn/module.h"

namespace trireme {

bool wants_grad(Module& module) {
  bool wanted = false;
  module.visit([&](Parameter& p) { wanted |= p.spec().trainable; });
  return wanted;
}

Var Sequence::forward(const Context& ctx, const Var& x) {
  Var y = x;
  for (const ModulePtr& part : parts_) y = part->forward(ctx, y);
  return y;
}

void Sequence::visit(const ParameterFn& fn) {
  for (const ModulePtr& part : parts_) part->visit(fn);
}

}  // namespace trireme
