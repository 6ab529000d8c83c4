// Recomputation: keep a module's input, run it again when backward comes (Chen et al., arXiv
// 1604.06174; GPipe, arXiv 1811.06965).
//
// The first pass has no tape but keeps the dropout key, so both passes draw the same masks:
// gradients are bit-equal to those without recomputation. A segment of k layers is a Recompute
// around a Sequence of them.
#pragma once

#include "framework/nn/module.h"

namespace trireme {

// Where kept inputs live between forward and backward: on the device, cut over tensor ranks, on the
// host or on disk.
class ActivationStore {
 public:
  // Gives the tensor back, once.
  using Fetch = std::function<Tensor()>;
  virtual ~ActivationStore() = default;
  virtual Fetch keep(Tensor x) = 0;
};

// On the device, as they are.
class KeepOnDevice : public ActivationStore {
 public:
  Fetch keep(Tensor x) override;
};

class Recompute : public Module {
 public:
  // `store` must outlive the module.
  Recompute(ModulePtr child, ActivationStore& store) : child_(std::move(child)), store_(store) {}
  Var forward(const Context& ctx, const Var& x) override;
  void visit(const ParameterFn& fn) override { child_->visit(fn); }

 private:
  ModulePtr child_;
  ActivationStore& store_;
};

}  // namespace trireme
