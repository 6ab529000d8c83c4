// R16: the k-th request for memory fails, for every k, over load, one step and save. The answer is
// one sentence, on ledgers nothing is left, the checkpoints verify, and the next run works.
#include <gtest/gtest.h>

#include <iostream>

#include "framework/base/error.h"
#include "tests/faults_memory/state_run.h"
#include "tests/support/fault_count.h"

namespace trireme {
namespace {

using test::MemoryFault;
using test::Scarce;
using test::StateEnd;

const OffloadTiers kHostTiers{
    .optimizer = Tier::kHost, .gradients = Tier::kHost, .parameters = Tier::kHost, .tile = 500};
const OffloadTiers kDiskTiers{
    .optimizer = Tier::kDisk, .gradients = Tier::kDisk, .parameters = Tier::kHost, .tile = 200};

const std::vector<parity::Layout>& layouts() {
  static const std::vector<parity::Layout> all = {
      {},
      {.mesh = {.data = 2}},
      {.mesh = {.data = 2, .pipeline = 1, .tensor = 2}, .zero_stage = 1},
      {.mesh = {.data = 2}, .zero_stage = 2},
      {.mesh = {.data = 2}, .zero_stage = 3},
      {.mesh = {.data = 2}, .zero_stage = 3, .offload = kHostTiers},
      {.mesh = {.data = 2}, .zero_stage = 3, .offload = kDiskTiers}};
  return all;
}

int rank_count(const parity::Layout& layout) { return layout.mesh.ranks(); }

const char* what_of(Scarce memory) {
  if (memory == Scarce::kObjects) return "operator new";
  return memory == Scarce::kBlocks ? "memory of tensors" : "thread creation";
}

bool names_it(const std::string& said) {
  return said.find("memory") != std::string::npos || said.find("thread") != std::string::npos;
}

// The rank whose request failed says so itself; all others that ended then name it.
std::string wrong_on_a_rank(const StateEnd& end) {
  int failed = 0;
  for (const std::string& said : end.by_rank) {
    if (said.empty()) continue;
    if (said.find("rank ") != 0)
      ++failed;
    else if (!names_it(said))
      return join("a rank names another without its reason: ", said);
  }
  return failed > 1 ? join(failed, " ranks failed by themselves: ", end.said) : "";
}

// "" if the end is a right one.
std::string wrong(test::StateRun& run, const StateEnd& end) {
  if (!end.ended) {
    // Outside of the ranks, or with no memory for a sentence at all, it is main that speaks.
    if (!end.spoken && end.said != "std::bad_alloc") return join("no Error but ", end.said);
    if (end.spoken && (!names_it(end.said) || end.said.find("bad_alloc") != std::string::npos))
      return join("a sentence without its reason: ", end.said);
  }
  return run.damage(end);
}

// Every k up to `dense`, then every one of about `more` further.
test::FaultCount run_out_of(Scarce memory, const parity::Layout& layout, std::int64_t dense,
                            std::int64_t more) {
  test::FaultCount count{.row = "R16"};
  test::StateRun run(layout);
  std::int64_t tried = 0;
  const std::int64_t all = run.run({.memory = memory}).memory.requests;
  EXPECT_EQ(run.damage({.loss = 0, .ended = false}), "");
  const std::int64_t stride = all <= dense ? 1 : std::max<std::int64_t>(1, (all - dense) / more);
  for (const bool sticky : {false, true}) {
    // The folder that the test itself makes for files on disk cannot go without memory.
    if (sticky && memory == Scarce::kObjects && layout.offload.on_disk()) continue;
    for (std::int64_t k = 1; k <= all; k += k < dense ? 1 : stride) {
      const StateEnd end = run.run({.memory = memory, .at = k, .sticky = sticky});
      ++count.runs;
      tried += sticky ? 0 : 1;
      count.injected += end.memory.failed;
      std::string problem = wrong(run, end);
      if (problem.empty() && !sticky) problem = wrong_on_a_rank(end);
      EXPECT_EQ(problem, "") << "request " << k << " of " << all << (sticky ? ", sticky" : "");
      if (!problem.empty()) ++count.lost;
      if (count.lost > 5) return count;
    }
  }
  const StateEnd again = run.run({.memory = memory});
  EXPECT_TRUE(again.ended) << again.said;
  EXPECT_EQ(run.damage(again), "");
  count.what =
      join(what_of(memory), " fails, ", rank_count(layout), " ranks, zero ", layout.zero_stage,
           layout.offload.on_disk()                    ? ", disk"
           : layout.offload.gradients != Tier::kDevice ? ", host"
                                                       : "",
           ": ", tried, " of ", all, " requests, once", tried < count.runs ? " and for good" : "");
  return count;
}

TEST(OutOfMemory, OfTensorsAtEveryRequest) {
  for (const parity::Layout& layout : layouts())
    test::tell(run_out_of(Scarce::kBlocks, layout, 10000, 1));
}

TEST(PlantedBug, BytesThatStayCountedAreFound) {
  test::StateRun run({}, true);
  int found = 0;
  for (std::int64_t k = 1; k <= 150; k += 10) {
    const StateEnd end = run.run({.memory = Scarce::kBlocks, .at = k});
    found += run.damage(end).find("bytes on the device ledger") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(found, 5);
}

TEST(OutOfThreads, AtEveryThread) {
  for (const parity::Layout& layout : layouts())
    test::tell(run_out_of(Scarce::kThreads, layout, 10000, 1));
}

TEST(OutOfMemory, OfObjects) {
  for (const parity::Layout& layout : layouts())
    test::tell(run_out_of(Scarce::kObjects, layout, 150, 150));
}

}  // namespace
}  // namespace trireme
