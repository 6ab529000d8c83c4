// The module wrapper that makes a list entry ZeRO's: gather before use, release after it, reduce
// when backward ended.
//
// forward = gather; record the end of backward; child; record the begin of backward (which gathers
// again); release. A recomputing pass keeps its weights until that backward. It pushes tape entries
// and nothing else: no hooks, no search. Goes inside Recompute, so that a recomputed segment
// gathers again by itself.
#pragma once

#include <vector>

#include "framework/nn/module.h"
#include "zero/residency.h"

namespace trireme {

class Sharded : public Module {
 public:
  // `units` hold the child's parameters and must outlive it, as must `residency`, which is told of
  // each use of list entry `entry`; null: weights live from use to use.
  Sharded(ModulePtr child, std::vector<Unit*> units, Residency* residency = nullptr, int entry = 0)
      : child_(std::move(child)), units_(std::move(units)), residency_(residency), entry_(entry) {}
  Var forward(const Context& ctx, const Var& x) override;
  void visit(const ParameterFn& fn) override { child_->visit(fn); }
  const std::vector<Unit*>& units() const { return units_; }

 private:
  void record_end(const Context& ctx);
  void enter();
  void leave();

  ModulePtr child_;
  std::vector<Unit*> units_;
  Residency* residency_;
  int entry_;
};

}  // namespace trireme
