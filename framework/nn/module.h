// A serial-looking piece of the model. The same modules train, evaluate and generate: what happens
// besides the maths is the Context's business.
//
// forward() may be called again for recomputation and for other micro-batches; a module keeps no
// state between calls except its parameters.
#pragma once

#include <memory>
#include <vector>

#include "framework/autograd/context.h"
#include "framework/autograd/parameter.h"

namespace trireme {

class Module {
 public:
  virtual ~Module() = default;
  virtual Var forward(const Context& ctx, const Var& x) = 0;
  // Calls fn for each parameter, in a fixed order.
  virtual void visit(const ParameterFn& fn) { static_cast<void>(fn); }
};

using ModulePtr = std::unique_ptr<Module>;

// Has the module a trainable parameter? Wrappers ask before giving its output a gradient slot.
bool wants_grad(Module& module);

// Modules one after the other.
class Sequence : public Module {
 public:
  explicit Sequence(std::vector<ModulePtr> parts) : parts_(std::move(parts)) {}
  Var forward(const Context& ctx, const Var& x) override;
  void visit(const ParameterFn& fn) override;

 private:
  std::vector<ModulePtr> parts_;
};

}  // namespace trireme
