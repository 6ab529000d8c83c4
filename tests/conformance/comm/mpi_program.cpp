// The list on MPI: `mpirun -n N program cases [guarded] | faults | hang FOLDER`. Cases also run
// on thread ranks in rank 0, and the bits must be equal.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>

#include "tests/conformance/comm/local_ranks.h"
#include "tests/support/guarded_backend.h"
#include "tests/support/tensors.h"

namespace {

using namespace trireme;
using namespace trireme::test;

struct Ranks {
  MpiSession& session;
  Communicator& steady;  // a world that stays whole
  bool guarded = false;
  int failures = 0;

  std::vector<std::uint64_t> gather(std::uint64_t mine) {
    const auto backend = make_reference_backend(std::make_shared<MemoryLedger>());
    steady.attach(*backend);
    const auto n = static_cast<std::size_t>(steady.size());
    std::vector<std::uint64_t> all(n);
    const Tensor piece = backend->allocate({8}, DType::kU8, MemoryKind::kActivations);
    const Tensor whole =
        backend->allocate({8 * steady.size()}, DType::kU8, MemoryKind::kActivations);
    backend->upload(&mine, piece);
    steady.all_gather(piece, whole).wait();
    backend->download(whole, all.data());
    return all;
  }

  void problem(const CommCase& one, const std::string& text) {
    std::fprintf(stderr, "FAILED: %s on rank %d: %s\n", one.name.c_str(), steady.rank(),
                 text.c_str());
    ++failures;
  }

  void run(const CommCase& one, bool compare) {
    if (one.ranks > steady.size()) return;
    TestClock clock;
    const auto world =
        session.world({.timeout_seconds = kCaseTimeout, .clock = [&clock] { return clock.now(); }});
    const auto ledger = std::make_shared<MemoryLedger>();
    const auto backend = guarded ? make_guarded_backend(ledger) : make_reference_backend(ledger);
    world->attach(*backend);
    CaseContext context{*world, *backend, clock, [this] { steady.barrier(); }, false};
    try {
      one.run(context);
    } catch (const std::exception& error) {
      problem(one, error.what());
      session.abort_job(3);
    }
    const std::vector<std::uint64_t> digests = gather(context.digest);
    if (!compare || steady.rank() != 0) return;
    const LocalRun local = run_on_threads(steady.size(), one);
    for (const std::string& text : local.problems) problem(one, "on threads: " + text);
    if (local.digests != digests) problem(one, "MPI and threads give different bits");
  }
};

// Waits for peers without end, as a training run does, until something kills a rank.
void hang(Communicator& world, const std::string& folder) {
  std::ofstream(join(folder, "/pid.", world.rank())) << getpid() << std::endl;
  world.barrier();
  if (world.rank() == 0) std::ofstream(folder + "/ready") << "ready" << std::endl;
  for (;;) world.barrier();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const auto session = MpiSession::start(&argc, &argv);
  const auto steady = session->world({.timeout_seconds = 60});
  if (mode == "hang" && argc > 2) hang(*steady, argv[2]);
  Ranks ranks{*session, *steady, argc > 2 && argv[2] == std::string("guarded")};
  if (mode == "cases") {
    for (const CommCase& one : collective_cases()) ranks.run(one, true);
    for (const CommCase& one : flight_cases()) ranks.run(one, true);
    for (const CommCase& one : quick_cases()) ranks.run(one, true);
  } else if (mode == "faults") {
    for (const CommCase& one : fault_cases()) ranks.run(one, false);
    for (const CommCase& one : quick_fault_cases()) ranks.run(one, false);
  } else {
    std::fprintf(stderr, "usage: cases [guarded], faults or hang FOLDER\n");
    return 2;
  }
  // After a fault case processes end without MPI_Finalize, and the launcher kills the rest: first
  // everybody arrives, then rank 0 speaks, then all leave.
  steady->barrier();
  if (steady->rank() == 0 && ranks.failures == 0) {
    std::printf("%s: all passed on %d ranks\n", mode.c_str(), steady->size());
    std::fflush(stdout);
  }
  steady->barrier();
  return ranks.failures == 0 ? 0 : 1;
}
