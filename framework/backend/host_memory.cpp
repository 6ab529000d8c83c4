#include "framework/backend/host_memory.h"

#include <cstdlib>

#include "framework/base/error.h"

namespace trireme {

std::shared_ptr<Storage> allocate_host(std::shared_ptr<MemoryLedger> ledger, Tier tier,
                                       MemoryKind kind, std::int64_t bytes) {
  ledger->add(tier, kind, bytes);
  const std::int64_t padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* data = std::aligned_alloc(kAlignment, static_cast<std::size_t>(padded));
  if (!data) {
    ledger->remove(tier, kind, bytes);
    fail("out of memory: the machine has no ", bytes, " bytes left for ", name_of(kind),
         "; in use:\n", ledger->table(tier));
  }
  return make_storage(data, bytes, [data, bytes, tier, kind, ledger] {
    std::free(data);
    ledger->remove(tier, kind, bytes);
  });
}

}  // namespace trireme
