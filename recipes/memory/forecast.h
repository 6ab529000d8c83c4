// The memory of one rank of a layout, told before anything runs: bytes by tier and kind, between
// steps and at the peak of a step, as sums of named terms.
//
// A step is walked on paper: the rank's own action list, its units as planned (StagePlan), the
// touches and the gather plan that Residency carries out, the published list of every layer, what
// the pipeline's runner and the optimizer take. Kinds marked exact equal the ledger of a real run
// of thread ranks byte for byte (tests/recipes/memory); others say why not in `doubts`. Workspace
// of kernels is not forecast. Costs no memory and knows no machine.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "recipes/memory/state_formulas.h"
#include "recipes/memory/tally.h"
#include "recipes/models/engine.h"

namespace trireme {

struct ForecastCell {
  std::int64_t resident = 0, peak = 0;
  bool exact = true;  // does a run's peak equal this one?
  std::vector<MemoryTerm> resident_terms, peak_terms;
};

struct Forecast {
  std::array<std::array<ForecastCell, kMemoryKinds>, kTiers> cells;
  // Over all kinds of a tier; a peak is that of the sum. `ram`: of device and host together, which
  // are one memory on a machine without an accelerator.
  std::array<std::int64_t, kTiers> resident{}, peak{};
  std::int64_t ram = 0;
  std::vector<MemoryTerm> device_peak;     // what is held at that moment
  std::int64_t elements = 0, padding = 0;  // Psi, and how much of it is padding
  std::int64_t ranks = 1;                  // N: that share Psi out
  std::vector<StateTerm> states;
  std::vector<std::string> doubts;  // why a peak is not exact

  const ForecastCell& cell(Tier tier, MemoryKind kind) const {
    return cells[static_cast<std::size_t>(tier)][static_cast<std::size_t>(kind)];
  }
};

// Without terms it is faster: for searches.
enum class Detail : std::uint8_t { kTerms, kBytes };
// Thread ranks read each other's tensors; MPI ranks stage sums, under communication on the device.
enum class Transport : std::uint8_t { kThreads, kMpi };

struct ForecastOptions {
  Detail detail = Detail::kTerms;
  Transport transport = Transport::kThreads;
  // Steps run while a checkpoint is written from a snapshot, under communication on the host: of
  // peaks, never between steps. States at home on disk have none (has_snapshot).
  bool background_save = false;
};

// Does a save in the background copy what it writes? Not from a disk: such states are saved while
// training waits.
inline bool has_snapshot(const OffloadTiers& tiers) {
  return tiers.optimizer != Tier::kDisk && tiers.parameters != Tier::kDisk;
}

// Throws Error for what no run could do either: a list that cannot be cut, heads that cannot be
// split, live parameters above their bound.
Forecast forecast(const EngineOptions& options, const MeshShape& mesh, const MeshCoord& coord,
                  const ForecastOptions& how = {});

}  // namespace trireme
