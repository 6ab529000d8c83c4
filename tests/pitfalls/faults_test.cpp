// Reported hangs and divergences when something goes wrong on one rank only.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/backend/host_values.h"
#include "framework/base/error.h"
#include "tests/pitfalls/curves.h"
#include "tests/support/tensors.h"
#include "tests/zero/toys.h"

namespace trireme::pitfalls {
namespace {

using parity::random_samples;
using parity::tiny_gpt2;

TEST(Pitfall, P28_ABadShardOfOneStageSkipsTheStepEverywhere) {
  test::on_ranks(8, [](Communicator& world, Backend& backend) {
    Mesh mesh(world, kCube);
    const MeshCoord at = mesh.coord();
    test::ToyUnit toy({test::toy_spec(join("stage", at.pipeline), 4)}, backend, mesh.data());
    ZeroOptimizer optimizer({&toy.unit()}, backend, mesh, test::sgd(1.0));
    const bool bad = at.pipeline == 1 && at.tensor == 1 && at.data == 0;
    toy.backward({{1, 1, 1, bad ? -INFINITY : 1}});
    const StepResult skipped = optimizer.step({});
    EXPECT_TRUE(skipped.skipped);
    EXPECT_EQ(skipped.bad_parameter, "stage1");
    EXPECT_EQ(optimizer.steps_taken(), 0);
    EXPECT_EQ(toy.values(), (std::vector<double>{1, 1, 1, 1}));
    toy.backward({{1, 1, 1, 1}});
    EXPECT_FALSE(optimizer.step({}).skipped);
    EXPECT_EQ(toy.values(), (std::vector<double>{-1, -1, -1, -1}));
  });
}

// NaN and infinity all over the buffers of one step must not reach the next one.
TEST(Pitfall, P28_AWholeModelForgetsASkippedStep) {
  const Task task{.model = tiny_gpt2(), .global_batch = 4};
  const SampleSource source = random_samples(task.model, task.seed);
  const auto trained = [&](bool with_bad_step) {
    LogicalTensors weights;
    run_layout(task, {.mesh = kCube}, [&](Rank& rank) {
      rank.engine.train(0, source);
      if (with_bad_step) {
        std::vector<std::pair<Tensor, std::vector<double>>> kept;
        rank.engine.stage().visit([&](Parameter& p) {
          kept.emplace_back(p.value, download_doubles(rank.backend, p.value));
          if (p.name().ends_with("mlp.up.bias"))
            rank.backend.kernels()->fill(p.value, rank.mesh.coord().tensor == 1 ? NAN : 0.0);
        });
        const StepResult result = rank.engine.train(1, source).optimizer;
        EXPECT_TRUE(result.skipped);
        EXPECT_NE(result.bad_parameter, "unknown");
        EXPECT_NE(result.bad_parameter, "");
        for (const auto& [tensor, values] : kept) upload_doubles(rank.backend, values, tensor);
      }
      for (int step = 1; step < 3; ++step)
        EXPECT_FALSE(rank.engine.train(step, source).optimizer.skipped);
      weights.add_weights(rank);
    });
    return weights.tensors();
  };
  EXPECT_EQ(trained(true), trained(false));
}

// Names of everything in front of a layer.
std::function<bool(const std::string&)> before_layer(int layer) {
  return [layer](const std::string& name) {
    if (name.starts_with("embedding")) return true;
    for (int i = 0; i < layer; ++i)
      if (name.starts_with(join("layers.", i, "."))) return true;
    return false;
  };
}

TEST(Pitfall, P29_AStageWithoutTrainableParametersTakesPart) {
  Task task{.model = tiny_gpt2(), .global_batch = 4};
  task.model.tie_embeddings = false;
  task.frozen = before_layer(2);
  LogicalTensors initial;
  run_layout(task, {}, [&](Rank& rank) { initial.add_weights(rank); });
  const parity::Curve serial = parity::train(task, {});
  const std::vector<Layout> layouts = {
      {.mesh = {.pipeline = 2}},
      {.mesh = kCube, .recompute = RecomputeMode::kFull},
      {.mesh = {.pipeline = 4}, .schedule = ScheduleKind::kZeroBubbleH1},
      {.mesh = {.pipeline = 2, .tensor = 2}, .sequence_parallel = true},
      {.mesh = {.pipeline = 2}, .schedule = ScheduleKind::kInterleaved, .chunks = 2}};
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(text_of(layout));
    const parity::Curve curve = parity::train(task, layout);
    EXPECT_LE(parity::distance(serial, curve), 1e-12);
    EXPECT_LE(parity::distance(serial.weights, curve.weights), 1e-12);
    for (const auto& [name, values] : curve.weights)
      EXPECT_EQ(task.frozen(name), values == initial.tensors().at(name)) << name;
  }
}

TEST(ZeroPitfall, P22_FrozenParametersStayAsTheyAre) {
  Task task{.model = parity::tiny_llama(2), .global_batch = 4};
  task.model.tie_embeddings = false;
  task.frozen = [](const std::string& name) {
    return name == "embedding.table" || name.starts_with("layers.1.");
  };
  LogicalTensors initial;
  run_layout(task, {}, [&](Rank& rank) { initial.add_weights(rank); });
  const parity::Curve serial = parity::train(task, {});
  EXPECT_FALSE(serial.gradients.contains("layers.1.mlp.up.weight"));
  for (const Layout& layout :
       {Layout{}, Layout{.mesh = kCube, .recompute = RecomputeMode::kSelective},
        Layout{.mesh = {.data = 2}, .recompute = RecomputeMode::kFull, .recompute_every = 2}}) {
    const parity::Curve curve = parity::train(task, layout);
    EXPECT_LE(parity::distance(serial.weights, curve.weights), 1e-12);
    for (const auto& [name, values] : curve.weights)
      EXPECT_EQ(task.frozen(name), values == initial.tensors().at(name)) << name;
  }
}

TEST(ZeroPitfall, P22_AFrozenTiedTableStaysAsItIsOnBothEnds) {
  Task task{.model = tiny_gpt2(), .global_batch = 4};
  task.frozen = [](const std::string& name) { return name == "embedding.table"; };
  const parity::Curve serial = parity::train(task, {});
  EXPECT_TRUE(serial.gradients.contains("embedding.positions"));
  const parity::Curve curve = parity::train(task, {.mesh = kCube});
  EXPECT_LE(parity::distance(serial.weights, curve.weights), 1e-12);
  EXPECT_EQ(curve.weights.at("embedding.table"), serial.weights.at("embedding.table"));
}

TEST(Pitfall, P30_ARankThatFailsIsNamedByTheOthers) {
  const Task task{.model = tiny_gpt2(), .global_batch = 4};
  const SampleSource source = random_samples(task.model, task.seed);
  std::mutex mutex;
  int told = 0;
  std::string first;
  try {
    run_layout(task, {.mesh = kCube}, [&](Rank& rank) {
      try {
        for (int step = 0; step < 5; ++step) {
          check(step != 3 || rank.mesh.world().rank() != 5, "the power went out");
          rank.engine.train(step, source);
        }
      } catch (const Error& e) {
        std::scoped_lock lock(mutex);
        if (std::string(e.what()).find("rank 5 failed: the power went out") != std::string::npos)
          ++told;
        throw;
      }
    });
  } catch (const Error& e) {
    first = e.what();
  }
  EXPECT_EQ(first, "the power went out");
  EXPECT_EQ(told, 7);
}

}  // namespace
}  // namespace trireme::pitfalls
