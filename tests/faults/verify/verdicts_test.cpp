// What a verified step decides: who is to blame, when a run ends, and what it does not see.
#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "tests/faults/verify/faulty_ranks.h"
#include "tests/faults/verify/tiny_task.h"
#include "tests/support/fault_count.h"
#include "tests/support/guarded_backend.h"

namespace trireme::test {
namespace {

const parity::Layout kPair{.mesh = {.data = 2}, .micro = 2, .zero_stage = 1};

std::string error_of(const Flips& flips, int steps) {
  try {
    train_with_faults(flips, steps);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Verdict, ThreeTimesTheSameRankEndsTheRun) {
  Flips flips{.task = tiny_task(DType::kF64), .layout = kPair, .most_times = 3};
  flips.faults[1] = {.where = "weight gradient", .bit = 60, .rank = 1};
  flips.faults[2] = {.where = "rest exp_avg", .bit = 3, .rank = 1};
  flips.faults[3] = {.where = "activation", .bit = 51, .rank = 0};
  flips.faults[5] = {.where = "adam value", .bit = 20, .rank = 1};
  const std::string text = error_of(flips, 8);
  EXPECT_NE(text.find("rank 1 (data 1, pipeline 0, tensor 0) was wrong 3 times, at steps 2, 3, 6"),
            std::string::npos)
      << text;
  tell({.row = "R18",
        .what = "the same rank three times",
        .runs = 1,
        .injected = 4,
        .lost = text.empty()});
}

TEST(Verdict, NoTwoRunsAgree) {
  Flips flips{.task = tiny_task(DType::kF64), .layout = kPair};
  // The bit of another element in each run. Of the same one, all three would be wrong alike.
  flips.faults[2] = {.where = "matmul", .bit = 61, .rank = 1, .pick = 1, .every_run = true};
  const std::string text = error_of(flips, 4);
  EXPECT_NE(text.find("step 3: rank 1 (data 1, pipeline 0, tensor 0) computed"), std::string::npos)
      << text;
  EXPECT_NE(text.find("no two of three runs agree"), std::string::npos) << text;
}

TEST(Verdict, PaddingIsNobodysBusiness) {
  Flips flips{.task = tiny_task(DType::kF64), .layout = kPair};
  flips.task.model.vocab = 11;
  for (int step = 1; step < 5; ++step)
    flips.faults[step] = {.where = "padding", .bit = 50 + step, .rank = step % 2};
  std::int64_t fired = 0;
  for (const StepSeen& seen : train_with_faults(flips, 6)) {
    EXPECT_TRUE(seen.said.empty()) << seen.said[0];
    EXPECT_TRUE(seen.right);
    fired += seen.fired;
  }
  EXPECT_GT(fired, 0);
}

// Documented: what goes wrong in a step that is not verified is not seen, and stays.
TEST(Verdict, OnlyEveryNthStepIsSeen) {
  Flips flips{.task = tiny_task(DType::kF64), .layout = kPair, .every = 3};
  flips.faults[2] = {.where = "weight gradient", .bit = 61, .rank = 1};
  flips.faults[5] = {.where = "adam exp_avg", .bit = 61, .rank = 0};
  flips.faults[7] = {.where = "weight gradient", .bit = 61, .rank = 0};
  const std::vector<StepSeen> seen = train_with_faults(flips, 9);
  for (std::size_t step = 0; step < seen.size(); ++step) {
    EXPECT_EQ(seen[step].said.size(), step == 2 || step == 5 ? 1U : 0U) << step;
    EXPECT_EQ(seen[step].right, step < 7) << step;
  }
}

TEST(Verdict, NarrowWeightsAndTheirMasters) {
  Flips flips{.task = tiny_task(DType::kBF16), .layout = kPair};
  flips.faults[1] = {.where = "rest weights", .bit = 9, .rank = 1, .pick = 100};
  flips.faults[2] = {.where = "rest value", .bit = 1, .rank = 0, .pick = 31};
  flips.faults[3] = {.where = "activation", .bit = 14, .rank = 1};
  const std::vector<StepSeen> seen = train_with_faults(flips, 5);
  for (std::size_t step = 0; step < seen.size(); ++step) {
    EXPECT_EQ(seen[step].said.size(), flips.faults.contains(static_cast<int>(step)) ? 1U : 0U);
    EXPECT_TRUE(seen[step].right);
    if (step == 1 || step == 2) {
      EXPECT_NE(seen[step].said[0].find(seen[step].tensor), std::string::npos);
    }
  }
}

// On a backend whose memory only backends and communicators may touch, and with nothing wrong.
TEST(Verdict, AQuietRunIsQuiet) {
  parity::Task task = tiny_task(DType::kF32);
  task.model.dropout = 0.1;
  task.state_copy = true;
  task.backend = make_guarded_backend;
  task.network = [](Communicator& world) { return std::make_unique<WitnessCommunicator>(world); };
  const SampleSource source = parity::random_samples(task.model, task.seed);
  for (const int ranks : {1, 2})
    for (const int stage : {0, 3}) {
      const parity::Layout layout{
          .mesh = {.data = ranks, .tensor = ranks}, .micro = 1, .zero_stage = stage};
      parity::run_layout(task, layout, [&](parity::Rank& rank) {
        StepVerifier verifier({rank.engine, rank.mesh, rank.backend,
                               dynamic_cast<WitnessCommunicator&>(rank.mesh.world())},
                              {}, [](const std::string& text) { ADD_FAILURE() << text; });
        for (int step = 0; step < 3; ++step) {
          const auto run = [&] { return rank.engine.train(step, source); };
          verifier.train(step, run, run);
        }
        EXPECT_EQ(verifier.verified(), 3);
        EXPECT_EQ(verifier.incidents(), 0);
      });
    }
}

TEST(Verdict, NoCopyIsMadeOfStatesOnDisk) {
  parity::Task task = tiny_task(DType::kF64);
  task.state_copy = true;
  const parity::Layout layout{
      .mesh = {.data = 2}, .zero_stage = 1, .offload = {.optimizer = Tier::kDisk}};
  try {
    parity::run_layout(task, layout, [](parity::Rank&) {});
    FAIL() << "was made";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("at home on disk, where no copy of them is made"),
              std::string::npos)
        << error.what();
  }
}

CommEvent event(std::uint64_t call, bool outgoing, int member, int piece = -1) {
  return {.call = call, .value = 5, .outgoing = outgoing, .member = member, .piece = piece};
}
StepDifference differs(const CommEvent& first) {
  return {.communicates = true, .first = first, .states = true};
}

TEST(Culprits, TheOneWhoseInputsWereTheSame) {
  const std::vector<StepDifference> ranks{differs(event(7, false, 0)), differs(event(7, true, 1)),
                                          differs(event(9, false, 2))};
  EXPECT_EQ(culprits(ranks, {true, true, true}), std::vector<int>{1});
}

TEST(Culprits, TheOneThatGotSomethingElseThanWasSent) {
  const std::vector<StepDifference> ranks{differs(event(8, false, 0)), differs(event(7, false, 1))};
  EXPECT_EQ(culprits(ranks, {true, false}), std::vector<int>{1});
}

TEST(Culprits, TheOneThatSummedThePieceWhichAllGotWrong) {
  const std::vector<StepDifference> ranks{differs(event(7, false, 0, 2)),
                                          differs(event(7, false, 1, 2)),
                                          differs(event(7, false, 2, 2))};
  EXPECT_EQ(culprits(ranks, {false, false, false}), std::vector<int>{2});
}

TEST(Culprits, WithoutADifferenceInWhatWasSaidItIsTheStates) {
  const std::vector<StepDifference> ranks{{}, {.states = true}};
  EXPECT_EQ(culprits(ranks, {false, false}), std::vector<int>{1});
}

TEST(Culprits, ADifferenceTravelsAsText) {
  StepDifference d = differs(event(~0ULL, false, 3, 2));
  d.state = "layers.1.mlp.up.weight (value)";
  d.tensors = 12;
  const StepDifference back = decode_difference(encode(d));
  EXPECT_EQ(back.first, d.first);
  EXPECT_EQ(back.gradient, "");
  EXPECT_EQ(back.state, d.state);
  EXPECT_EQ(back.tensors, 12);
  EXPECT_TRUE(back.communicates && back.states);
}

}  // namespace
}  // namespace trireme::test
