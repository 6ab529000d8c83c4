// R5: the list of wrong calls that threads and MPI must refuse (tests/conformance/comm), in seeded
// orders: another operation, count, type, root or message is told to every rank with both calls.
#include <gtest/gtest.h>

#include "tests/conformance/comm/comm_cases.h"
#include "tests/support/baton.h"
#include "tests/support/fault_count.h"

namespace trireme::test {
namespace {

// Of all ranks, by other means than the world.
class Meeting {
 public:
  explicit Meeting(Baton& baton, int ranks) : baton_(baton), ranks_(ranks) {}
  void come(int rank) {
    const int mine = meetings_;
    if (++here_ == ranks_) {
      here_ = 0;
      ++meetings_;
    }
    baton_.park(rank, [this, mine] { return meetings_ != mine; });
  }

 private:
  Baton& baton_;
  const int ranks_;
  int here_ = 0, meetings_ = 0;
};

// What ranks of the case had to say against it.
std::vector<std::string> problems_of(const CommCase& one, int ranks, std::uint64_t seed) {
  std::vector<std::string> problems;
  Baton baton(ranks, {.seed = seed, .late_percent = 10, .reorders = true});
  Meeting meeting(baton, ranks);
  TestClock unused;
  try {
    run_thread_ranks(ranks, baton.options(kCaseTimeout), [&](Communicator& world) {
      const auto backend = make_reference_backend(std::make_shared<MemoryLedger>());
      world.attach(*backend);
      CaseContext context{world, *backend, unused, [&] { meeting.come(world.rank()); }};
      try {
        one.run(context);
      } catch (const std::exception& error) {
        problems.push_back(join("rank ", world.rank(), ": ", error.what()));
        throw;
      }
    });
  } catch (const Error&) {
    // A fault case leaves a failed world behind; what matters is in `problems`.
  }
  return problems;
}

TEST(WrongCalls, AreToldToEveryRankInEveryOrder) {
  FaultCount told{.row = "R5", .what = "wrong calls in seeded orders"};
  for (const CommCase& one : fault_cases())
    for (const int ranks : {2, 3, 4})
      for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        if (one.ranks > ranks) continue;
        const std::vector<std::string> problems = problems_of(one, ranks, seed);
        EXPECT_EQ(problems, std::vector<std::string>{})
            << one.name << " on " << ranks << " ranks, seed " << seed;
        ++told.runs;
        ++told.injected;
        told.lost += problems.empty() ? 0 : 1;
      }
  tell(told);
}

// The oracle can fail: a legal program is no fault case.
TEST(WrongCalls, ARightCallIsNoFault) {
  const CommCase right{
      "right", [](CaseContext& c) { contains(error_of([&] { c.world.barrier(); }), "called"); }};
  EXPECT_FALSE(problems_of(right, 2, 1).empty());
}

}  // namespace
}  // namespace trireme::test
