// Row R19: after step 3 one element of one rank's copy is off by one unit in the last place; step 4
// ends on all ranks with a sentence that names the tensor, the array and the rank.
#include <gtest/gtest.h>

#include <mutex>

#include "framework/base/error.h"
#include "tests/faults/replicas/flips.h"
#include "tests/support/fault_count.h"

namespace trireme::test {
namespace {

using parity::Layout;
using parity::Rank;
using parity::Task;
using parity::tiny_gpt2;
using parity::tiny_llama;

struct Drift {
  std::string what;
  ModelOptions model;
  DType compute = DType::kF32;
  Layout layout;
  int rank = 1;
  Place place;
  std::vector<int> named;  // ranks in the sentence
  std::string against;     // what it says of the others
};

std::string name_of_rank(const MeshShape& mesh, int rank) {
  const MeshCoord at = coord_of(mesh, rank);
  return join("rank ", rank, " (data ", at.data, ", pipeline ", at.pipeline, ", tensor ", at.tensor,
              ")");
}

const std::string kUp = "layers.0.mlp.up.weight", kNorm = "layers.1.norm1.weight",
                  kKey = "layers.2.attention.k.weight", kTable = "embedding.table";
const std::string kTwo = "hold different bits, and with 2 copies no majority tells which are right";

std::vector<Drift> drifts() {
  const ModelOptions gpt2 = tiny_gpt2();
  const Layout two{.mesh = {.data = 2}};
  const Layout first_stage{.mesh = {.data = 2}, .zero_stage = 1};
  const auto others = [](int n) { return join("other bits than ", n, " equal copies"); };
  return {
      {"weight", gpt2, DType::kF32, two, 1, {kUp, "value", 17}, {0, 1}, kTwo},
      {"first copy", gpt2, DType::kF32, two, 0, {kUp, "value", 0}, {0, 1}, kTwo},
      {"m", gpt2, DType::kF32, two, 1, {kUp, "exp_avg", 3}, {0, 1}, kTwo},
      {"v", gpt2, DType::kF32, two, 1, {kUp, "exp_avg_sq", 1023}, {0, 1}, kTwo},
      {"one of three",
       gpt2,
       DType::kF32,
       {.mesh = {.data = 3}},
       2,
       {kUp, "value", 5},
       {2},
       others(2)},
      {"first of three",
       gpt2,
       DType::kF64,
       {.mesh = {.data = 3}},
       0,
       {kUp, "exp_avg", 5},
       {0},
       others(2)},
      {"master", gpt2, DType::kBF16, two, 1, {kUp, "value", 8}, {0, 1}, kTwo},
      {"compute weight", gpt2, DType::kBF16, two, 1, {kUp, "compute value", 8}, {0, 1}, kTwo},
      {"stage 1, compute weight",
       gpt2,
       DType::kBF16,
       first_stage,
       1,
       {kUp, "compute value", 900},
       {0, 1},
       kTwo},
      {"norm of a tensor rank",
       gpt2,
       DType::kF32,
       {.mesh = {.tensor = 2}},
       1,
       {kNorm, "value", 15},
       {0, 1},
       kTwo},
      {"norm of a tensor rank, cut",
       gpt2,
       DType::kF32,
       {.mesh = {.data = 2, .tensor = 2}, .sequence_parallel = true, .zero_stage = 3},
       1,
       {kNorm, "exp_avg", 0},
       {0, 1},
       kTwo},
      {"norm, 8 copies",
       gpt2,
       DType::kF32,
       {.mesh = {.data = 2, .tensor = 4}},
       6,
       {kNorm, "value", 1},
       {6},
       others(7)},
      {"tied copy",
       gpt2,
       DType::kF32,
       {.mesh = {.pipeline = 2}},
       1,
       {kTable, "value", 40},
       {0, 1},
       kTwo},
      {"tied copy, cut",
       gpt2,
       DType::kF32,
       {.mesh = {.data = 2, .pipeline = 3}, .zero_stage = 3},
       5,
       {kTable, "exp_avg", 2},
       {1, 5},
       kTwo},
      {"key/value head",
       tiny_llama(2),
       DType::kF32,
       {.mesh = {.tensor = 4}},
       3,
       {kKey, "value", 9},
       {2, 3},
       kTwo},
      {"key/value head, 4 copies",
       tiny_llama(1),
       DType::kBF16,
       {.mesh = {.tensor = 4}},
       2,
       {kKey, "value", 9},
       {2},
       others(3)},
      {"hybrid shard",
       gpt2,
       DType::kF32,
       {.mesh = {.data = 4}, .zero_stage = 3, .shard_ranks = 2},
       3,
       {kUp, "value", 7},
       {1, 3},
       kTwo},
      {"hybrid shard of three",
       gpt2,
       DType::kF32,
       {.mesh = {.data = 6}, .zero_stage = 2, .shard_ranks = 2},
       3,
       {kUp, "exp_avg_sq", 7},
       {3},
       others(2)},
  };
}

// The sentences of all ranks, empty where step 4 went well.
std::vector<std::string> sentences(const Drift& drift, bool& changed) {
  Task task{.model = drift.model, .steps = 4, .compute = drift.compute};
  std::vector<std::string> all(static_cast<std::size_t>(drift.layout.mesh.ranks()));
  std::mutex mutex;
  const SampleSource source = parity::random_samples(task.model, task.seed);
  run_layout(task, drift.layout, [&](Rank& rank) {
    for (int step = 0; step < 3; ++step) rank.engine.train(step, source);
    const int me = rank.mesh.world().rank();
    const bool hit = me == drift.rank && change(rank, drift.place, Change::kUlp);
    std::string sentence;
    try {
      rank.engine.train(3, source);
    } catch (const Error& error) {
      sentence = error.what();
    }
    EXPECT_EQ(rank.engine.optimizer().steps_taken(), 3);
    std::scoped_lock lock(mutex);
    changed |= hit;
    all[static_cast<std::size_t>(me)] = sentence;
  });
  return all;
}

TEST(Replicas, ADriftOfOneUlpIsNamedInTheNextStep) {
  FaultCount count{.row = "R19", .what = "copies off by 1 ulp"};
  for (const Drift& drift : drifts()) {
    SCOPED_TRACE(drift.what);
    bool changed = false;
    const std::vector<std::string> all = sentences(drift, changed);
    ++count.runs;
    count.injected += changed;
    std::string ranks;
    for (int r : drift.named)
      ranks += (ranks.empty() ? "" : ", ") + name_of_rank(drift.layout.mesh, r);
    const std::string expected = join("step 4: copies of ", drift.place.tensor, " (",
                                      drift.place.array, ") differ: ", ranks);
    bool right = changed;
    for (const std::string& sentence : all) {
      EXPECT_EQ(sentence, all.front());
      EXPECT_NE(sentence.find(expected), std::string::npos) << sentence << "\n" << expected;
      EXPECT_NE(sentence.find(drift.against), std::string::npos) << sentence;
      EXPECT_NE(sentence.find("; 1 of "), std::string::npos) << sentence;
      right &= sentence.find(expected) != std::string::npos;
    }
    count.lost += !right;
  }
  tell(count);
}

// Nothing is reported of runs without a fault: long enough for copies to drift by rounding.
TEST(Replicas, CopiesOfTwentyStepsAreEqualBits) {
  for (const DType compute : {DType::kF32, DType::kBF16})
    for (const Layout& layout :
         {Layout{.mesh = {.data = 2, .pipeline = 2, .tensor = 2}, .sequence_parallel = true},
          Layout{.mesh = {.data = 2, .tensor = 4}, .zero_stage = 2},
          Layout{.mesh = {.data = 4}, .zero_stage = 3, .shard_ranks = 2}}) {
      Task task{.model = tiny_llama(2), .global_batch = 4, .steps = 20, .compute = compute};
      task.model.dropout = 0.1;
      EXPECT_EQ(parity::train(task, layout).losses.size(), 20u);
    }
}

}  // namespace
}  // namespace trireme::test
