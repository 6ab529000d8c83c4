// Counted memory of this machine: what the host backends call device memory, and what the host tier
// is made of.
#pragma once

#include <memory>

#include "framework/base/memory_ledger.h"
#include "framework/base/tensor.h"

namespace trireme {

inline constexpr std::int64_t kAlignment = 64;  // bytes: a cache line and the widest vector

// `bytes` > 0 of uninitialised, 64-byte aligned memory, counted on the ledger before it is taken
// and given back to both when the storage dies. Throws Error when the ledger's limit would be
// exceeded or memory is exhausted.
std::shared_ptr<Storage> allocate_host(std::shared_ptr<MemoryLedger> ledger, Tier tier,
                                       MemoryKind kind, std::int64_t bytes);

}  // namespace trireme
