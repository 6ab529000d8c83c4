#include "recipes/train/step_memory.h"

#include <algorithm>

namespace trireme {

namespace {

std::size_t at(Tier tier) { return static_cast<std::size_t>(tier); }
std::size_t at(MemoryKind kind) { return static_cast<std::size_t>(kind); }

}  // namespace

void StepMemory::begin_step() { ledger_.reset_peaks(); }

void StepMemory::end_step() {
  for (int t = 0; t < kTiers; ++t) {
    const auto tier = static_cast<Tier>(t);
    for (int k = 0; k < kMemoryKinds; ++k) {
      const auto kind = static_cast<MemoryKind>(k);
      std::int64_t& most = kinds_[at(tier)][at(kind)];
      most = std::max(most, ledger_.entry(tier, kind).peak);
    }
    tiers_[at(tier)] = std::max(tiers_[at(tier)], ledger_.peak(tier));
  }
  ledger_.mark_resident();
}

MemoryLedger::Entry StepMemory::entry(Tier tier, MemoryKind kind) const {
  MemoryLedger::Entry entry = ledger_.entry(tier, kind);
  entry.peak = kinds_[at(tier)][at(kind)];
  return entry;
}

std::int64_t StepMemory::peak(Tier tier) const { return tiers_[at(tier)]; }

}  // namespace trireme
