#include "framework/backend/reference_backend.h"

#include "framework/backend/host_memory.h"

namespace trireme {

std::shared_ptr<Storage> ReferenceBackend::do_allocate(std::int64_t bytes, MemoryKind kind) {
  return allocate_host(shared_ledger(), Tier::kDevice, kind, bytes);
}

std::unique_ptr<Backend> make_reference_backend(std::shared_ptr<MemoryLedger> ledger) {
  return std::make_unique<ReferenceBackend>(std::move(ledger));
}

}  // namespace trireme
