#include "tests/faults/comm/small_program.h"

#include <filesystem>

namespace trireme::test {

std::int64_t threads_now() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

SmallRun run_small(const CommunicatorOptions& options) {
  SmallRun run;
  std::vector<std::shared_ptr<MemoryLedger>> ledgers(kRanks);
  try {
    run_thread_ranks(kRanks, options, [&](Communicator& world) {
      const auto rank = static_cast<std::size_t>(world.rank());
      ledgers[rank] = std::make_shared<MemoryLedger>();
      const auto backend = make_reference_backend(ledgers[rank]);
      world.attach(*backend);
      try {
        run.results[rank] = small_program(world, *backend);
      } catch (const std::exception& error) {
        run.errors[rank] = error.what();
        throw;
      }
    });
  } catch (const Error& error) {
    run.thrown = error.what();
  }
  for (const auto& ledger : ledgers) run.bytes_left += ledger->current(Tier::kDevice);
  return run;
}

}  // namespace trireme::test
