// A few thread ranks, each with a backend of its own, for tests of single parts. Only for programs
// that link the communicators.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "framework/base/error.h"
#include "framework/comm/communicator.h"

namespace trireme::test {

using RankBody = std::function<void(Communicator& world, Backend& backend)>;

inline void on_ranks(int ranks, const RankBody& body) {
  run_thread_ranks(ranks, {.timeout_seconds = 60}, [&](Communicator& world) {
    const auto ledger = std::make_shared<MemoryLedger>();
    {
      const auto backend = make_reference_backend(ledger);
      world.attach(*backend);
      body(world, *backend);
      world.barrier();
    }
    check(ledger->current(Tier::kDevice) == 0, "memory: ", ledger->current(Tier::kDevice),
          " bytes were never given back");
  });
}

}  // namespace trireme::test
