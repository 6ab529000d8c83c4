// What a rank's ledger counted between steps, and at the peaks of training steps alone: what an
// evaluation or a sample takes in between is not told (the limit of device.memory holds for it all
// the same).
//
// Begins every step's peaks at the bytes in use, so they are the ledger's own during a step.
#pragma once

#include <array>
#include <cstdint>

#include "framework/base/memory_ledger.h"

namespace trireme {

class StepMemory {
 public:
  // `ledger` must outlive it.
  explicit StepMemory(MemoryLedger& ledger) : ledger_(ledger) {}

  void begin_step();
  void end_step();  // and what is in use now is resident
  // So is what is in use now, at the end of a run whose steps held more for a while.
  void mark_resident() { ledger_.mark_resident(); }

  // Of all steps so far.
  MemoryLedger::Entry entry(Tier tier, MemoryKind kind) const;
  std::int64_t peak(Tier tier) const;

 private:
  MemoryLedger& ledger_;
  std::array<std::array<std::int64_t, kMemoryKinds>, kTiers> kinds_{};
  std::array<std::int64_t, kTiers> tiers_{};
};

}  // namespace trireme
