// What a training step changes on this rank, kept twice: so that a step can be taken back and made
// again, and states that changed by themselves can be put right (train.verify_every).
//
// Kept are the homes as they are between steps, padding included: weights (whole or the own shard),
// masters and moments, wherever they live, and ZeroOptimizer::Progress. Gradients are not: every
// step overwrites them or fills them with zeros (Unit::begin_step). Restoring changes no bit, so
// the step made again has the same bits.
//
// The copy lies on the host, as communication, from its making on: 12 bytes a parameter with f32
// weights and Adam at stage 0, 14 with 16-bit weights, of the own shard what stages cut. One rank's
// thread, between steps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "zero/optimizer.h"

namespace trireme {

// An array that lasts from step to step: of a unit, "value" (the master, or the weights where they
// are wide), "weights" where those are apart from it, and the moments.
struct KeptHome {
  std::size_t unit = 0;
  std::string array;
  FlatHome home;
};
// In a fixed order, units first; without empty ones.
std::vector<KeptHome> kept_homes(const ZeroOptimizer& optimizer);

class StateCopy {
 public:
  // Takes the memory; nothing is copied yet. Throws Error where a home is on disk. `optimizer` must
  // outlive it.
  StateCopy(ZeroOptimizer& optimizer, const std::shared_ptr<MemoryLedger>& ledger);

  void take();
  // Only after take().
  void restore();

 private:
  struct Array {
    FlatHome home;
    Tensor kept;  // on the host
  };
  ZeroOptimizer& optimizer_;
  std::vector<Array> arrays_;
  ZeroOptimizer::Progress progress_;
  bool taken_ = false;
};

}  // namespace trireme
