// The model states of one rank as arithmetic: bytes of weights, gradients and optimizer states, by
// stage and tier. One source for the report's formulas and for `trireme memory`.
//
// Legend: Psi elements of the rank after tensor and pipeline splits, padding included; N ranks that
// share them out. With bf16 weights and f32 gradients: 18 Psi, 6 Psi + 12 Psi / N,
// 2 Psi + 16 Psi / N, 18 Psi / N at stages 0 to 3; with gradients in the compute type the paper's
// 16 Psi, 4 Psi + 12 Psi / N, 2 Psi + 14 Psi / N, 16 Psi / N (ZeRO, arXiv 1910.02054, section 3 and
// figure 1). Weights in the wide type are their own masters, wherever the moments live. Whole
// gradients of stage 1 stay whole when they move. On disk this is the payload: trailers and blocks
// come on top (TiledStore::home_bytes). Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/base/memory_ledger.h"

namespace trireme {

// Bytes of an element, and how many moments the optimizer keeps.
struct StateTypes {
  std::int64_t compute = 2;  // of weights
  std::int64_t gradients = 4;
  std::int64_t wide = 4;  // of masters and moments
  int moments = 2;
};

struct StateLayout {
  std::int64_t elements = 0;    // Psi, a multiple of ranks
  std::int64_t trainable = -1;  // of them in units with something to train; -1 = all
  std::int64_t ranks = 1;       // N
  int stage = 0;
  Tier parameters = Tier::kDevice, gradients = Tier::kDevice, optimizer = Tier::kDevice;
};

// One kind: `each` bytes for every element, of all of them or of 1/N.
struct StateTerm {
  MemoryKind kind = MemoryKind::kParameters;
  Tier tier = Tier::kDevice;
  std::int64_t each = 0, elements = 0, ranks = 1;
  bool cut = false;  // over the ranks
  std::int64_t bytes() const { return each * (cut ? elements / ranks : elements); }
};

// Parameters, gradients, optimizer, in this order. Throws Error for a stage outside 0 to 3 or
// elements that are no multiple of ranks.
std::vector<StateTerm> state_terms(const StateLayout& layout, const StateTypes& types);

// Over the terms of one tier: their bytes, and the formula: "2 Psi + 16 Psi / N", "0".
std::int64_t state_bytes(const std::vector<StateTerm>& terms, Tier tier);
std::string state_formula(const std::vector<StateTerm>& terms, Tier tier);
// Of one term: "12 Psi / N".
std::string text_of(const StateTerm& term);

// The most elements whose states take at most `bytes` of the device: a multiple of layout.ranks;
// layout.elements is not read. 0 if the device holds nothing of them.
std::int64_t largest_model(std::int64_t bytes, StateLayout layout, const StateTypes& types);

}  // namespace trireme
