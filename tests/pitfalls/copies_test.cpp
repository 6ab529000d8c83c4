// Reported failures where copies of a parameter drift apart: norms under sequence parallelism, tied
// tables, replicas with dropout. LogicalTensors throws when two copies differ in a single bit.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/pitfalls/curves.h"
#include "tests/support/tensors.h"
#include "tests/zero/toys.h"

namespace trireme::pitfalls {
namespace {

using parity::tiny_gpt2;
using parity::tiny_llama;

TEST(Pitfall, P7_NormGradientsUnderSequenceParallelismAreWhole) {
  const Task task{.model = tiny_gpt2(), .steps = 1};
  const Logical serial = parity::train(task, {}).gradients;
  for (int tensor : {2, 4}) {
    const Layout layout{.mesh = {.tensor = tensor}, .sequence_parallel = true};
    const Logical gradients =
        parity::train(task, layout).gradients;  // equal on all ranks, or throws
    int norms = 0;
    for (const auto& [name, values] : serial) {
      if (name.find("norm") == std::string::npos) continue;
      ++norms;
      EXPECT_TRUE(test::close(gradients.at(name), values, 1e-12)) << name;
    }
    EXPECT_EQ(norms, 2 * (2 * 4 + 1));
  }
}

TEST(Pitfall, P10_ReplicasStayEqualForTwentyStepsWithDropout) {
  Task task{.model = tiny_llama(2), .global_batch = 4, .steps = 20, .compute = DType::kF32};
  task.model.dropout = 0.1;
  for (bool sequence_parallel : {false, true}) {
    const Layout layout{.mesh = kCube, .sequence_parallel = sequence_parallel};
    EXPECT_FALSE(parity::train(task, layout).weights.empty());
  }
}

TEST(Pitfall, P11_InitialWeightsAreSlicesOfTheSerialOnes) {
  const Task task{.model = tiny_llama(4)};
  const auto initial = [&](const Layout& layout) {
    LogicalTensors weights;
    run_layout(task, layout, [&](Rank& rank) { weights.add_weights(rank); });
    return weights.tensors();
  };
  const Logical serial = initial({});
  EXPECT_EQ(initial({.mesh = {.tensor = 4}}), serial);
  EXPECT_EQ(initial({.mesh = kCube}), serial);
  const std::vector<double>& up = serial.at("layers.0.mlp.up.weight");
  const auto half = static_cast<std::ptrdiff_t>(up.size() / 2);
  EXPECT_NE(std::vector<double>(up.begin(), up.begin() + half),
            std::vector<double>(up.begin() + half, up.end()));
}

TEST(Pitfall, P14_TiedGradientsAreSummedOverDataAndEnds) {
  test::on_ranks(4, [](Communicator& world, Backend& backend) {
    Mesh mesh(world, {.data = 2, .pipeline = 2});
    const bool first = mesh.coord().pipeline == 0;
    test::ToyUnit tied({test::toy_spec("tied", 1, SumGroup::kEnds, first)}, backend, mesh.data());
    ZeroOptions options{.schedule = {.lr = 0.1}};
    ZeroOptimizer optimizer({&tied.unit()}, backend, mesh, options);
    // First stage 1, 3; last stage 10, 30; a mean over 2 data ranks is in the seed of backward.
    const double gradient = (first ? 1 : 10) * (mesh.coord().data == 0 ? 1 : 3) / 2.0;
    tied.backward({{gradient}});
    EXPECT_EQ(optimizer.step({}).grad_norm, 22);
    EXPECT_EQ(tied.gradient(), std::vector<double>{22});
  });
}

TEST(Pitfall, P14_TiedCopiesAreEqualAfterTrainingUnderEverySchedule) {
  Task task{.model = tiny_gpt2(), .global_batch = 4, .steps = 20, .compute = DType::kF32};
  for (ScheduleKind schedule : {ScheduleKind::kOneFOneB, ScheduleKind::kZeroBubbleH1}) {
    const Layout layout{.mesh = kCube, .schedule = schedule};
    EXPECT_FALSE(parity::train(task, layout).weights.empty());
    task.steps = 5;
  }
}

TEST(Pitfall, P15_TheLastStageHasTheTiedTable) {
  for (const ModelOptions& model : {tiny_gpt2(), tiny_llama(2)}) {
    const Task task{.model = model, .lr = 3e-2};
    const SampleSource source = parity::random_samples(model, task.seed);
    const auto written = [&](const Layout& layout) {
      std::vector<std::int32_t> tokens;
      run_layout(task, layout, [&](Rank& rank) {
        for (int step = 0; step < 3; ++step) rank.engine.train(step, source);
        const Greedy result = greedy(rank, {1, 2, 3}, 16, model.sequence);
        if (rank.first()) tokens = result.tokens;
        rank.engine.stage().visit([](Parameter& p) {
          if (p.name() == "embedding.table") {
            EXPECT_TRUE(p.spec().decay);
          }
        });
      });
      return tokens;
    };
    const std::vector<std::int32_t> serial = written({});
    ASSERT_EQ(serial.size(), 19U);
    EXPECT_EQ(written({.mesh = {.pipeline = 2}}), serial);
    EXPECT_EQ(written({.mesh = {.pipeline = 2, .tensor = 4}}), serial);  // with padding tokens
    EXPECT_EQ(
        written({.mesh = {.pipeline = 2}, .schedule = ScheduleKind::kInterleaved, .chunks = 2}),
        serial);
  }
}

TEST(Pitfall, P17_AVocabularyThatDoesNotDivideTrainsAndHasItsOwnRows) {
  const Task task{.model = tiny_gpt2(), .steps = 2};
  const Logical serial = parity::train(task, {}).weights;
  for (int tensor : {2, 4}) {
    const Logical weights = parity::train(task, {.mesh = {.tensor = tensor}}).weights;
    EXPECT_EQ(weights.at("embedding.table").size(), 13U * 16U);
    EXPECT_LE(parity::distance(serial, weights), 1e-12);
  }
}

// Without optimizer state (plain SGD) weights are all there is to save.
TEST(Pitfall, P19_WeightsGoToEveryOtherLayout) {
  Task task{.model = tiny_llama(2), .global_batch = 8};
  task.optimizer = {.kind = OptimizerKind::kSgd};
  task.lr_shape = LrShape::kConstant;
  const SampleSource source = parity::random_samples(task.model, task.seed);
  const auto losses_from = [&](const Layout& layout, const Logical* weights, int begin, int end,
                               LogicalTensors& saved) {
    std::vector<double> losses;
    run_layout(task, layout, [&](Rank& rank) {
      if (weights) rank.engine.kept().load_values(parity::source_of(*weights));
      for (int step = begin; step < end; ++step) {
        const double loss = rank.engine.train(step, source).loss;
        if (rank.first()) losses.push_back(loss);
      }
      saved.add_weights(rank);
    });
    return losses;
  };
  LogicalTensors serial, saved;
  const std::vector<double> all = losses_from({}, nullptr, 0, 10, serial);
  losses_from({.mesh = {.data = 2, .pipeline = 1, .tensor = 2}}, nullptr, 0, 5, saved);
  const std::vector<MeshShape> others = {{.pipeline = 1, .tensor = 1},
                                         {.tensor = 4},
                                         {.pipeline = 4},
                                         {.data = 4},
                                         {.data = 2, .pipeline = 2}};
  for (const MeshShape& mesh : others) {
    LogicalTensors unused;
    EXPECT_TRUE(test::close(losses_from({.mesh = mesh}, &saved.tensors(), 5, 10, unused),
                            {all.begin() + 5, all.end()}, 1e-12));
  }
}

}  // namespace
}  // namespace trireme::pitfalls
