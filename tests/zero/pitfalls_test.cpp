// Reported failures of sharded optimizers, each with the value that it should have given. Numbers
// are those of our list of public reports; names begin with them.
#include <cmath>

#include "framework/base/error.h"
#include "tests/support/tensors.h"
#include "tests/zero/toys.h"

namespace trireme::test {
namespace {

constexpr double kInf = INFINITY;

// The scale doubles in the very step whose gradients were made with the old one.
TEST(ZeroPitfall, P1_GradientsAreUnscaledByTheScaleOfTheirBackward) {
  on_ranks(2, [](Communicator& world, Backend& backend) {
    Mesh mesh(world, {.data = 2});
    const auto delta = [&](OptimizerOptions optimizer) {
      ToyUnit toy({toy_spec("w", 1)}, backend, world);
      ZeroOptions options = sgd(1.0);
      options.optimizer = optimizer;
      options.loss_scale = {.dynamic = true, .initial = 4, .window = 1};
      ZeroOptimizer zero({&toy.unit()}, backend, mesh, options);
      const double scale = zero.loss_scale();
      toy.backward({{1.0 * scale}});  // the gradient over both ranks is 2
      const StepResult result = zero.step({.loss_scale = scale});
      EXPECT_EQ(result.grad_norm, 2);
      EXPECT_EQ(result.loss_scale, 4);
      EXPECT_EQ(zero.loss_scale(), 8);
      return 1.0 - toy.values()[0];
    };
    EXPECT_EQ(delta({.kind = OptimizerKind::kSgd}), 2);  // not 1
    // m = 0.2 and v = 4 (1 - beta2): 2 / (2 + 1). With m = 0.1 it would be 1 / (1 + 1).
    EXPECT_NEAR(delta({.kind = OptimizerKind::kAdam, .eps = 1}), 2.0 / 3, 1e-15);
  });
}

TEST(ZeroPitfall, P1_TheUnscaledNormIsClipped) {
  on_ranks(1, [](Communicator& world, Backend& backend) {
    ToyUnit toy({toy_spec("w", 2)}, backend, world);
    Mesh mesh(world, {});
    ZeroOptions options = sgd(1.0);
    options.clip = 1;
    options.loss_scale = {.initial = 1024};
    ZeroOptimizer optimizer({&toy.unit()}, backend, mesh, options);
    toy.backward({{0.3 * 1024, 0.4 * 1024}});
    EXPECT_DOUBLE_EQ(optimizer.step({.loss_scale = optimizer.loss_scale()}).grad_norm, 0.5);
    EXPECT_TRUE(close(toy.values(), {0.7, 0.6}, 1e-15));  // nothing to clip
  });
}

TEST(ZeroPitfall, P2_TheNormIsThatOfAllShards) {
  for (int ranks : {1, 2, 3, 8})
    on_ranks(ranks, [&](Communicator& world, Backend& backend) {
      ToyUnit toy({toy_spec("g", 5)}, backend, world);
      Mesh mesh(world, {.data = ranks});
      ZeroOptimizer optimizer({&toy.unit()}, backend, mesh, sgd(1.0));
      toy.backward({world.rank() == ranks - 1 ? std::vector<double>{3, 0, 4, 0, 12}
                                              : std::vector<double>{0, 0, 0, 0, 0}});
      EXPECT_EQ(optimizer.step({}).grad_norm, 13);
    });
}

TEST(ZeroPitfall, P4_ReplicatedParametersCountOnce) {
  on_ranks(4, [](Communicator& world, Backend& backend) {
    Mesh mesh(world, {.tensor = 4});
    ToyUnit toy(
        {toy_spec("replicated", 4, SumGroup::kNone, world.rank() == 0), toy_spec("sharded", 3)},
        backend, mesh.data());
    ZeroOptimizer optimizer({&toy.unit()}, backend, mesh, sgd(1.0));
    toy.backward({{1, 1, 1, 1}, {1, 1, 1}});
    EXPECT_EQ(optimizer.step({}).grad_norm, 4.0);  // not 5.2915
  });
}

TEST(ZeroPitfall, P5_TiedParametersCountOnceAndCopiesStayEqual) {
  on_ranks(2, [](Communicator& world, Backend& backend) {
    Mesh mesh(world, {.pipeline = 2});
    ToyUnit toy({toy_spec("tied", 2, SumGroup::kEnds, world.rank() == 0)}, backend, mesh.data());
    ZeroOptions options = sgd(0.1);
    options.optimizer = {};  // AdamW
    ZeroOptimizer optimizer({&toy.unit()}, backend, mesh, options);
    const std::vector<double> mine =
        world.rank() == 0 ? std::vector<double>{15, 12} : std::vector<double>{5, 8};
    toy.backward({mine});
    EXPECT_DOUBLE_EQ(optimizer.step({}).grad_norm, std::sqrt(800.0));  // 28.284, not 40
    for (int step = 1; step < 20; ++step) {
      toy.backward({{mine[0] / step, mine[1] * step}});
      optimizer.step({});
    }
    Tensor copy = backend.zeros({2}, DType::kF64, MemoryKind::kWorkspace);
    backend.copy(toy.parameter(0).value, copy);
    world.broadcast(copy, 0).wait();
    EXPECT_TRUE(same_bits(backend, copy, toy.parameter(0).value));
  });
}

TEST(ZeroPitfall, P7_AnEmptyParameterChangesNothing) {
  const auto trained = [](bool with_empty) {
    std::vector<double> result;
    on_ranks(2, [&](Communicator& world, Backend& backend) {
      std::vector<ParameterSpec> specs = {toy_spec("a", 8), toy_spec("b", 24)};
      std::vector<std::vector<double>> gradients = {normals(8, 1), normals(24, 2)};
      if (with_empty) {
        specs.insert(specs.begin() + 1, toy_spec("empty", 0));
        gradients.insert(gradients.begin() + 1, std::vector<double>{});
      }
      ToyUnit toy(specs, backend, world);
      Mesh mesh(world, {.data = 2});
      ZeroOptions options = sgd(0.1);
      options.optimizer = {};
      ZeroOptimizer optimizer({&toy.unit()}, backend, mesh, options);
      for (int step = 0; step < 3; ++step) {
        toy.backward(gradients);
        optimizer.step({});
      }
      if (world.rank() == 0) result = toy.values(specs.size() - 1);
    });
    return result;
  };
  EXPECT_EQ(trained(true), trained(false));
}

// 1 + 512 x 2^-9, gradient by gradient.
double many_small_gradients(DType gradients) {
  double sum = 0;
  on_ranks(1, [&](Communicator& world, Backend& backend) {
    ToyUnit toy({toy_spec("w", 1)}, backend, world,
                UnitOptions{.compute = DType::kBF16, .gradients = gradients});
    const auto add = [&](double value) {
      const Tensor dy = tensor(backend, {1, 1}, DType::kBF16, {value});
      backend.train_kernels()->column_sum(dy, toy.parameter(0).grad, toy.parameter(0).accumulate());
    };
    toy.unit().begin_step(513);
    add(1.0);
    for (int i = 0; i < 512; ++i) add(0x1p-9);
    sum = toy.gradient()[0];
    for (int i = 0; i < 513; ++i) toy.unit().end_backward();
  });
  return sum;
}

TEST(ZeroPitfall, P14_GradientsAccumulateInF32UnlessAskedOtherwise) {
  EXPECT_EQ(many_small_gradients(DType::kF32), 2.0);
  EXPECT_EQ(many_small_gradients(DType::kBF16), 1.0);  // the price of precision.gradients = compute
}

TEST(ZeroPitfall, P15_MastersMoveWhereBf16WeightsCannot) {
  on_ranks(1, [](Communicator& world, Backend& backend) {
    ToyUnit toy({toy_spec("w", 1)}, backend, world, DType::kBF16);
    Mesh mesh(world, {});
    ZeroOptimizer optimizer({&toy.unit()}, backend, mesh, sgd(1e-3));
    for (int i = 0; i < 100; ++i) {
      toy.backward({{1.0}});
      optimizer.step({});
    }
    EXPECT_EQ(toy.values(), std::vector<double>{0.8984375});  // the bf16 next to 0.9; not 1.0
    // A step of -0.9 leaves what the master was away from it: the rounding of 100 sums in f32
    // below 1.
    toy.backward({{900.0}});
    optimizer.step({});
    EXPECT_NEAR(toy.values()[0], 0, 100 * 0x1p-25);
  });
}

// Weights after steps of [1, 2, ...], without and with an infinite gradient at step 3, which must
// leave no trace at all.
std::vector<double> trained_with_a_bad_step(DType compute, int stage, bool with_bad_step) {
  std::vector<double> result;
  on_ranks(2, [&](Communicator& world, Backend& backend) {
    UnitOptions unit = toy_options(compute);
    unit.policy = policy_of(stage);
    ToyUnit toy({toy_spec("first", 4), toy_spec("second", 20)}, backend, world, unit);
    Mesh mesh(world, {.data = 2});
    ZeroOptions options = sgd(0.1);
    options.optimizer = {};
    ZeroOptimizer optimizer({&toy.unit()}, backend, mesh, options);
    for (int step = 1; step <= 4; ++step) {
      std::vector<double> g = normals(20, static_cast<std::uint64_t>(step));
      if (step == 3 && with_bad_step) {
        const std::vector<double> before = toy.values(1);
        std::vector<double> bad = g;
        if (world.rank() == 1) bad[17] = kInf;
        toy.backward({{1, 1, 1, 1}, bad});
        const StepResult skipped = optimizer.step({});
        EXPECT_TRUE(skipped.skipped);
        EXPECT_EQ(skipped.bad_parameter, "second");
        EXPECT_EQ(toy.values(1), before);
        EXPECT_EQ(optimizer.steps_taken(), 2);
      }
      toy.backward({{1, 1, 1, 1}, g});
      EXPECT_FALSE(optimizer.step({}).skipped);
    }
    const std::vector<double> values = toy.values(1);
    if (world.rank() == 0) result = values;
  });
  return result;
}

TEST(ZeroPitfall, P17_ABadGradientSkipsTheStepOnAllRanksAndLeavesNoTrace) {
  for (DType compute : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16})
    for (int stage : {0, 1, 2, 3}) {
      SCOPED_TRACE(join(name_of(compute), " at stage ", stage));
      const std::vector<double> quiet = trained_with_a_bad_step(compute, stage, false);
      EXPECT_NE(quiet, std::vector<double>(20, 1.0));
      EXPECT_EQ(trained_with_a_bad_step(compute, stage, true), quiet);
    }
}

TEST(ZeroPitfall, P17_TheFirstBadParameterByRankAndOrderIsNamed) {
  on_ranks(4, [](Communicator& world, Backend& backend) {
    Mesh mesh(world, {.pipeline = 4});
    ToyUnit toy({toy_spec(join("a", world.rank()), 1), toy_spec(join("b", world.rank()), 1)},
                backend, mesh.data());
    ZeroOptimizer optimizer({&toy.unit()}, backend, mesh, sgd(1.0));
    toy.backward({{1}, {world.rank() >= 1 ? NAN : 1}});
    EXPECT_EQ(optimizer.step({}).bad_parameter, "b1");
  });
}

TEST(ZeroPitfall, P19_TheScheduleDoesNotMoveOnSkippedSteps) {
  on_ranks(1, [](Communicator& world, Backend& backend) {
    ToyUnit toy({toy_spec("w", 1)}, backend, world);
    Mesh mesh(world, {});
    ZeroOptions options = sgd(1.0);
    options.schedule = {.shape = LrShape::kLinear, .lr = 1.0, .warmup = 2, .steps = 6};
    ZeroOptimizer optimizer({&toy.unit()}, backend, mesh, options);
    std::vector<double> applied;
    for (double g : {1.0, kInf, 1.0, kInf, 1.0}) {
      toy.backward({{g}});
      const StepResult result = optimizer.step({});
      EXPECT_EQ(result.skipped, g == kInf);
      if (!result.skipped) applied.push_back(result.lr);
    }
    EXPECT_EQ(optimizer.steps_taken(), 3);
    // Two steps of warm-up, then straight down from 1 over the four that are left.
    EXPECT_EQ(applied, (std::vector<double>{0.5, 1.0, 1.0}));
    EXPECT_EQ(toy.values(), std::vector<double>{1 - 2.5});
  });
}

TEST(ZeroPitfall, P20_ARankThatSkipsAUnitFailsNamingIt) {
  std::string message;
  try {
    on_ranks(2, [](Communicator& world, Backend& backend) {
      Mesh mesh(world, {.data = 2});
      ToyUnit one({toy_spec("a", 4)}, backend, world, DType::kF64, "layers.1");
      ToyUnit two({toy_spec("b", 4)}, backend, world, DType::kF64, "layers.2");
      ZeroOptimizer optimizer({&one.unit(), &two.unit()}, backend, mesh, sgd(1.0));
      two.unit().begin_step(1);
      if (world.rank() == 0) two.unit().end_backward();
      one.backward({{1, 1, 1, 1}});
      optimizer.step({});
    });
  } catch (const Error& e) {
    message = e.what();
  }
  EXPECT_NE(message.find("layers.2"), std::string::npos) << message;
}

TEST(ZeroPitfall, P21_AUnitUnusedInAStepHasZeroGradient) {
  on_ranks(2, [](Communicator& world, Backend& backend) {
    Mesh mesh(world, {.data = 2});
    ToyUnit always({toy_spec("a", 1)}, backend, world), even({toy_spec("b", 1)}, backend, world);
    ZeroOptimizer optimizer({&always.unit(), &even.unit()}, backend, mesh, sgd(1.0));
    for (int step = 0; step < 4; ++step) {
      always.backward({{1.5}});
      step % 2 == 0 ? even.backward({{2.0}}) : even.unit().begin_step(0);
      const StepResult result = optimizer.step({});
      EXPECT_EQ(result.grad_norm, step % 2 == 0 ? 5 : 3);
      EXPECT_EQ(even.gradient(), std::vector<double>{step % 2 == 0 ? 4.0 : 0.0});
    }
    EXPECT_EQ(even.values(), std::vector<double>{1 - 2 * 4.0});
  });
}

TEST(ZeroPitfall, P22_AFrozenUnitHasWeightsAndNothingElse) {
  on_ranks(2, [](Communicator& world, Backend& backend) {
    Mesh mesh(world, {.data = 2});
    ParameterSpec spec = toy_spec("frozen", 64);
    spec.trainable = false;
    ToyUnit frozen({spec}, backend, world, DType::kBF16),
        toy({toy_spec("w", 64)}, backend, world, DType::kBF16);
    ZeroOptions options = sgd(1.0);
    options.optimizer = {};  // AdamW
    ZeroOptimizer optimizer({&frozen.unit(), &toy.unit()}, backend, mesh, options);
    const auto bytes = [&](MemoryKind kind) {
      return backend.ledger().entry(Tier::kDevice, kind).current;
    };
    EXPECT_EQ(bytes(MemoryKind::kParameters), 2 * 64 * 2);  // 2 bytes an element, both
    EXPECT_EQ(bytes(MemoryKind::kGradients), 64 * 4);       // 4, and master and moments 12: one
    EXPECT_EQ(bytes(MemoryKind::kOptimizer), 64 * 12);
    frozen.unit().begin_step(1);
    frozen.unit().end_backward();
    toy.backward({std::vector<double>(64, 1.0)});
    optimizer.step({});
    EXPECT_EQ(frozen.values(), std::vector<double>(64, 1.0));
    EXPECT_NE(toy.values(), std::vector<double>(64, 1.0));
  });
}

TEST(ZeroPitfall, P33_AStaleGradientIsNotUsedTwice) {
  on_ranks(2, [](Communicator& world, Backend& backend) {
    Mesh mesh(world, {.data = 2});
    ToyUnit toy({toy_spec("w", 3)}, backend, world);
    ZeroOptimizer optimizer({&toy.unit()}, backend, mesh, sgd(1.0));
    toy.backward({{1, 1, 1}});
    EXPECT_EQ(optimizer.step({}).grad_norm, std::sqrt(12.0));
    toy.backward({{0, 0, 0}});
    EXPECT_EQ(optimizer.step({}).grad_norm, 0);
    toy.backward({{}});
    EXPECT_EQ(optimizer.step({}).grad_norm, 0);
    EXPECT_EQ(toy.values(), (std::vector<double>{-1, -1, -1}));
  });
}

}  // namespace
}  // namespace trireme::test
