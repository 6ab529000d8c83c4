// The scheduler itself: a seed replays a run, results do not depend on it, and a rank killed at any
// point of any call ends all others by name.
#include "tests/support/baton.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/faults/comm/small_program.h"
#include "tests/support/fault_count.h"

namespace trireme::test {
namespace {

TEST(Baton, ASeedReplaysAndChangesNoBit) {
  const SmallRun quiet = run_small({});
  ASSERT_EQ(quiet.thrown, "");
  FaultCount told{.row = "R3", .what = "seeded orders of a small program, each twice"};
  StormCount count;
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const StormPlan plan{.seed = seed,
                         .late_percent = 20,
                         .slow_rank = static_cast<int>(seed % kRanks),
                         .reorders = true};
    std::uint64_t first = 0;
    for (int time = 0; time < 2; ++time) {
      Baton baton(kRanks, plan);
      const SmallRun run = run_small(baton.options());
      EXPECT_EQ(run.results, quiet.results) << text_of(plan);
      EXPECT_EQ(run.bytes_left, 0);
      EXPECT_TRUE(time == 0 || baton.hash() == first) << text_of(plan);
      first = baton.hash();
      count += baton.count();
      ++told.runs;
      told.lost += run.results == quiet.results ? 0 : 1;
    }
    hashes.insert(first);
  }
  EXPECT_EQ(hashes.size(), 100u);
  EXPECT_EQ(count.calls_never_made(), std::vector<std::string>{});
  EXPECT_GT(count.late, 0);
  EXPECT_GT(count.slow, 0);
  EXPECT_GT(count.reordered, 0);
  told.injected = count.faults();
  tell(told);
}

TEST(Baton, ARankKilledAnywhereEndsTheOthersByName) {
  FaultCount told{.row = "R1", .what = "a rank killed at every point of a small program"};
  const std::int64_t threads = threads_now();
  StormCount count;
  for (const CallPoint point : {CallPoint::kCall, CallPoint::kStarted, CallPoint::kDone})
    for (int victim = 0; victim < kRanks; ++victim)
      for (std::int64_t k = 1;; ++k) {
        const StormPlan plan{
            .seed = static_cast<std::uint64_t>(k), .victim = victim, .at = k, .point = point};
        SCOPED_TRACE(text_of(plan));
        Baton baton(kRanks, plan);
        const SmallRun run = run_small(baton.options());
        count += baton.count();
        if (run.thrown.empty()) break;
        ++told.runs;
        std::int64_t named = 0;
        for (int rank = 0; rank < kRanks; ++rank) {
          const std::string& error = run.errors[static_cast<std::size_t>(rank)];
          const std::string name = join("rank ", victim, " failed: ", run.thrown);
          // A rank that had ended by then needs no word.
          const bool ended = !run.results[static_cast<std::size_t>(rank)].empty();
          named += rank == victim || ended || error.find(name) == 0 ? 1 : 0;
        }
        EXPECT_EQ(run.thrown.find("killed "), 0u) << run.thrown;
        EXPECT_EQ(named, kRanks) << run.errors[0];
        EXPECT_EQ(run.bytes_left, 0);
        EXPECT_EQ(threads_now(), threads);
        told.lost += named == kRanks ? 0 : 1;
      }
  EXPECT_GT(count.killed_before, 0);
  EXPECT_GT(count.killed_after, 0);
  EXPECT_GT(count.killed_done, 0);
  told.injected = count.faults();
  EXPECT_EQ(told.injected, told.runs);
  tell(told);
}

// No timer is left: the report tells what each rank waits for.
TEST(Baton, ADeadlockIsReportedWithEachRanksCall) {
  Baton baton(2, StormPlan{});
  std::string error;
  try {
    run_thread_ranks(2, baton.options(Baton::kForever), [&](Communicator& world) {
      const auto backend = make_reference_backend(std::make_shared<MemoryLedger>());
      world.attach(*backend);
      const Tensor x = backend->zeros({3}, DType::kF64, MemoryKind::kActivations);
      world.recv(x, 1 - world.rank()).wait();
    });
  } catch (const Error& e) {
    error = e.what();
  }
  EXPECT_EQ(baton.deadlock(),
            "nobody can run at 0 s: rank 0 waits in recv of 3 f64 (24 bytes) from rank 1, message "
            "1 of world; rank 1 waits in recv of 3 f64 (24 bytes) from rank 0, message 1 of "
            "world;");
  EXPECT_NE(error.find("did not complete"), std::string::npos) << error;
}

}  // namespace
}  // namespace trireme::test
