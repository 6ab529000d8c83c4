// A reference backend whose device memory can be touched only inside Backend and Communicator
// calls; anywhere else a read or write of it crashes, as it would on a GPU. New memory is filled
// with NaN, so reading what nobody has written shows.
//
// The memory of all guarded backends of the process is one reserved range of pages, which the first
// begin_access opens and the last end_access closes: ranks are threads, and a communicator reads
// its peers' memory. So with several ranks a stray access is seen only while no peer is inside a
// call; a test that must see it uses one rank.
#pragma once

#include "framework/backend/reference_backend.h"

namespace trireme::test {

class GuardedBackend final : public ReferenceBackend {
 public:
  using ReferenceBackend::ReferenceBackend;
  std::string_view name() const override { return "guarded"; }
  std::byte* host_address(const Tensor&) const override { return nullptr; }
  void begin_access() override;
  void end_access() override;

 protected:
  std::shared_ptr<Storage> do_allocate(std::int64_t bytes, MemoryKind kind) override;
};

std::unique_ptr<Backend> make_guarded_backend(std::shared_ptr<MemoryLedger> ledger);

}  // namespace trireme::test
