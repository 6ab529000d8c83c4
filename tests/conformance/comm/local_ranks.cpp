#include "tests/conformance/comm/local_ranks.h"

#include <barrier>
#include <mutex>

#include "tests/support/guarded_backend.h"

namespace trireme::test {

LocalRun run_on_threads(int ranks, const CommCase& one) {
  LocalRun run;
  run.digests.resize(static_cast<std::size_t>(ranks));
  TestClock clock;
  std::barrier meeting(ranks);
  std::mutex mutex;
  const auto body = [&](Communicator& world) {
    // With many ranks protecting pages takes most of the time and, since some rank is always inside
    // a call, shows nothing.
    const auto ledger = std::make_shared<MemoryLedger>();
    const auto backend = ranks <= 2 ? make_guarded_backend(ledger) : make_reference_backend(ledger);
    world.attach(*backend);
    CaseContext context{world, *backend, clock, [&] { meeting.arrive_and_wait(); }};
    try {
      one.run(context);
    } catch (const std::exception& error) {
      // A rank that comes no more must not keep others in a meeting.
      const std::lock_guard lock(mutex);
      run.problems.push_back(join("rank ", world.rank(), ": ", error.what()));
      world.abort(error.what());
      meeting.arrive_and_drop();
    }
    run.digests[static_cast<std::size_t>(world.rank())] = context.digest;
  };
  try {
    run_thread_ranks(ranks, {.timeout_seconds = kCaseTimeout, .clock = [&] { return clock.now(); }},
                     body);
  } catch (const Error&) {
    // A fault case leaves a failed world behind; what matters is in `problems`.
  }
  return run;
}

}  // namespace trireme::test
