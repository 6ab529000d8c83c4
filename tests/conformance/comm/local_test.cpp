// The list on communicators of one process: self, and threads.
#include <gtest/gtest.h>

#include <barrier>
#include <mutex>

#include "tests/conformance/comm/local_ranks.h"
#include "tests/support/guarded_backend.h"

namespace trireme::test {
namespace {

class LocalRanks : public ::testing::TestWithParam<int> {
 protected:
  void run_all(const std::vector<CommCase>& cases) {
    for (const CommCase& one : cases) {
      if (one.ranks > GetParam()) continue;
      const LocalRun run = run_on_threads(GetParam(), one);
      for (const std::string& problem : run.problems)
        ADD_FAILURE() << one.name << " on " << GetParam() << " ranks: " << problem;
    }
  }
};

TEST_P(LocalRanks, Collectives) { run_all(collective_cases()); }
TEST_P(LocalRanks, OperationsInFlight) { run_all(flight_cases()); }
TEST_P(LocalRanks, QuickSums) { run_all(quick_cases()); }
TEST_P(LocalRanks, Faults) { run_all(fault_cases()); }
TEST_P(LocalRanks, FaultsOfQuickSums) { run_all(quick_fault_cases()); }

INSTANTIATE_TEST_SUITE_P(Threads, LocalRanks, ::testing::Values(1, 2, 3, 4, 8));

TEST(SelfCommunicator, PassesTheList) {
  for (const auto& cases : {collective_cases(), flight_cases(), quick_cases()})
    for (const CommCase& one : cases) {
      TestClock clock;
      const auto world = make_self_communicator(
          {.timeout_seconds = kCaseTimeout, .clock = [&] { return clock.now(); }});
      const auto backend = make_guarded_backend(std::make_shared<MemoryLedger>());
      world->attach(*backend);
      CaseContext context{*world, *backend, clock, [] {}};
      EXPECT_NO_THROW(one.run(context)) << one.name;
    }
}

// Run to run the bits are the same.
TEST(ThreadRanks, ResultsRepeat) {
  for (const CommCase& one : flight_cases())
    EXPECT_EQ(run_on_threads(4, one).digests, run_on_threads(4, one).digests) << one.name;
}

}  // namespace
}  // namespace trireme::test
