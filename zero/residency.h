// Carries out a GatherPlan while a pass runs: holds units from where the plan starts their gathers
// to where it lets them go, so that uses in between find their weights. While a use computes, the
// shard of the next unit to be gathered is already being read if its home is on disk.
//
// The plan was made from the schedule's order; a pass that touches entries in another order is an
// internal error and is named. Without a plan (stages 0-2, toys) nothing is held: units then gather
// and release at each use. One rank's thread.
#pragma once

#include <memory>
#include <vector>

#include "zero/gather_plan.h"
#include "zero/unit.h"

namespace trireme {

class Residency {
 public:
  explicit Residency(std::vector<Unit*> units) : units_(std::move(units)) {}

  // Before and after a pass. The plan must live until end(); its unit numbers are indices of the
  // units given.
  void begin(const GatherPlan& plan);
  void end();
  void abandon() { plan_ = nullptr; }  // after an exception; units are let go by Unit::abandon()
  // Around a use of a list entry: before its units are gathered, and after they were released.
  void enter(int entry);
  void leave(int entry);

 private:
  std::size_t next(Touch::Kind kind, int entry);

  std::vector<Unit*> units_;
  const GatherPlan* plan_ = nullptr;
  std::size_t at_ = 0;
};

}  // namespace trireme
