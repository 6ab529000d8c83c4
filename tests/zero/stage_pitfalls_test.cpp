// Reported failures of sharded optimizers again, each at every stage with states, gradients and
// weights on every tier, and under hybrid sharding. Numbers are those of our list of public
// reports.
#include <cmath>

#include "framework/base/error.h"
#include "tests/support/tensors.h"
#include "tests/zero/tiered_toys.h"

namespace trireme::test {
namespace {

ZeroOptions adamw() { return {.schedule = {.lr = 0.1}}; }

// A norm that is 13 over all, whoever holds the elements.
double norm_of_13(Communicator& world, Backend& backend, Mesh& mesh, const Place& place) {
  TieredToys toys({{"g", {toy_spec("g", 5)}}}, backend, mesh, place, adamw());
  toys[0].backward({world.rank() == world.size() - 1 ? std::vector<double>{3, 0, 4, 0, 12}
                                                     : std::vector<double>(5, 0.0)});
  return toys.optimizer().step({}).grad_norm;
}

TEST(ZeroPitfall, P2_TheNormIsThatOfAllShardsAtEveryStageAndTier) {
  on_ranks(2, [](Communicator& world, Backend& backend) {
    Mesh mesh(world, {.data = 2});
    for (const Place& place : all_places())
      EXPECT_EQ(norm_of_13(world, backend, mesh, place), 13) << place.text();
  });
}

// Two replicas of a shard group: each element counts once. Groups of one rank are replicas only,
// and must still add up.
TEST(ZeroPitfall, P3_ReplicasCountOnceAndAddUp) {
  for (const int shards : {1, 2})
    on_ranks(4, [&](Communicator& world, Backend& backend) {
      Mesh mesh(world, {.data = 4});
      for (Place place : all_places()) {
        if (place.stage == 0) continue;
        place.shard_ranks = shards;
        SCOPED_TRACE(place.text());
        EXPECT_EQ(norm_of_13(world, backend, mesh, place), 13);  // not 18.385
        TieredToys toys({{"w", {toy_spec("w", 3)}}}, backend, mesh, place, sgd(1.0));
        toys[0].backward({{1.0 * (1 << world.rank()), 0, 0}});  // 15 over all ranks
        EXPECT_EQ(toys.optimizer().step({}).grad_norm, 15);
        EXPECT_EQ(toys[0].values(), (std::vector<double>{-14, 1, 1}));
      }
    });
}

TEST(ZeroPitfall, P4_ReplicatedParametersCountOnceAtEveryStageAndTier) {
  on_ranks(8, [](Communicator& world, Backend& backend) {
    Mesh mesh(world, {.data = 2, .tensor = 4});
    for (const Place& place : all_places()) {
      const std::vector<ParameterSpec> specs = {
          toy_spec("replicated", 4, SumGroup::kNone, mesh.coord().tensor == 0),
          toy_spec("sharded", 3)};
      TieredToys toys({{"both", specs}}, backend, mesh, place, adamw());
      toys[0].backward({{0.5, 0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}});
      EXPECT_EQ(toys.optimizer().step({}).grad_norm, 4.0) << place.text();  // not 5.2915
    }
  });
}

TEST(ZeroPitfall, P5_TiedCopiesStayEqualAtEveryStageAndTier) {
  on_ranks(4, [](Communicator& world, Backend& backend) {
    Mesh mesh(world, {.data = 2, .pipeline = 2});
    for (const Place& place : all_places()) {
      SCOPED_TRACE(place.text());
      const bool first = mesh.coord().pipeline == 0;
      TieredToys toys({{"tied", {toy_spec("tied", 2, SumGroup::kEnds, first)}}}, backend, mesh,
                      place, adamw());
      const std::vector<double> mine =
          first ? std::vector<double>{7.5, 6} : std::vector<double>{2.5, 4};
      for (int step = 1; step <= 20; ++step) {
        toys[0].backward({{mine[0] / step, mine[1] * step}});
        const double norm = toys.optimizer().step({}).grad_norm;
        if (step == 1) {
          EXPECT_DOUBLE_EQ(norm, std::sqrt(800.0));  // 28.284, not 40
        }
      }
      const Tensor own = tensor(backend, {2}, DType::kF64, toys[0].values());
      const Tensor other = backend.zeros({2}, DType::kF64, MemoryKind::kWorkspace);
      backend.copy(own, other);
      world.broadcast(other, 0).wait();
      EXPECT_TRUE(same_bits(backend, own, other));
    }
  });
}

TEST(ZeroPitfall, P7_AnEmptyParameterChangesNothingAtAnyStageOrTier) {
  on_ranks(2, [](Communicator& world, Backend& backend) {
    Mesh mesh(world, {.data = 2});
    const auto trained = [&](const Place& place, bool with_empty) {
      std::vector<ParameterSpec> specs = {toy_spec("a", 8), toy_spec("b", 24)};
      std::vector<std::vector<double>> gradients = {normals(8, 1), normals(24, 2)};
      if (with_empty) {
        specs.insert(specs.begin() + 1, toy_spec("empty", 0));
        gradients.insert(gradients.begin() + 1, std::vector<double>{});
      }
      TieredToys toys({{"all", specs}}, backend, mesh, place, adamw());
      for (int step = 0; step < 3; ++step) {
        toys[0].backward(gradients);
        toys.optimizer().step({});
      }
      return toys[0].values(specs.size() - 1);
    };
    const std::vector<double> expected = trained({}, false);
    for (const Place& place : all_places())
      EXPECT_EQ(trained(place, true), expected) << place.text();
  });
}

// A step that is skipped leaves no trace in weights, masters, moments or counts, wherever they are.
TEST(ZeroPitfall, P17_P19_SkippedStepsLeaveNoTraceAtAnyStageOrTier) {
  for (const DType compute : {DType::kF64, DType::kBF16})
    on_ranks(2, [&](Communicator& world, Backend& backend) {
      Mesh mesh(world, {.data = 2});
      ZeroOptions options = adamw();
      options.schedule = {.shape = LrShape::kLinear, .lr = 1.0, .warmup = 2, .steps = 6};
      const auto trained = [&](const Place& place, bool with_bad_steps) {
        TieredToys toys({{"w", {toy_spec("w", 20)}}}, backend, mesh, place, options, compute);
        std::vector<double> rates;
        for (int step = 1; step <= 3; ++step) {
          std::vector<double> g = normals(20, static_cast<std::uint64_t>(step));
          if (step > 1 && with_bad_steps) {  // steps 2 and 4 of 5
            std::vector<double> bad = g;
            if (world.rank() == 1) bad[17] = INFINITY;
            toys[0].backward({bad});
            const StepResult skipped = toys.optimizer().step({});
            EXPECT_TRUE(skipped.skipped);
            EXPECT_EQ(skipped.bad_parameter, "w");
          }
          toys[0].backward({g});
          rates.push_back(toys.optimizer().step({}).lr);
        }
        EXPECT_EQ(rates, (std::vector<double>{0.5, 1.0, 1.0}));
        EXPECT_EQ(toys.optimizer().steps_taken(), 3);
        return toys[0].values();
      };
      const std::vector<double> quiet = trained({}, false);
      for (const Place& place : all_places())
        EXPECT_EQ(trained(place, true), quiet) << place.text();
    });
}

// The policy for a unit that a step does not use: its gradient is zero, and the optimizer's rule is
// applied to that (moments fade, decay decays), at every stage alike.
TEST(ZeroPitfall, P21_AnUnusedUnitHasZeroGradientAtEveryStageAndTier) {
  on_ranks(2, [](Communicator& world, Backend& backend) {
    Mesh mesh(world, {.data = 2});
    ZeroOptions options = adamw();
    options.optimizer.weight_decay = 0.25;
    const auto trained = [&](const Place& place, bool explicit_zeros) {
      ParameterSpec spec = toy_spec("b", 3);
      spec.decay = true;
      TieredToys toys({{"always", {toy_spec("a", 1)}}, {"even", {spec}}}, backend, mesh, place,
                      options);
      for (int step = 0; step < 4; ++step) {
        toys[0].backward({{1.5}});
        if (step % 2 == 0)
          toys[1].backward({{2.0, 0, 0}});
        else if (explicit_zeros)
          toys[1].backward({{0.0, 0, 0}});
        else
          toys[1].unit().begin_step(0);
        EXPECT_EQ(toys.optimizer().step({}).grad_norm, step % 2 == 0 ? 5 : 3);
      }
      return toys[1].values();
    };
    const std::vector<double> expected = trained({}, true);
    EXPECT_LT(expected[1], 1.0);  // decay alone moved it
    for (const Place& place : all_places())
      EXPECT_EQ(trained(place, false), expected) << place.text();
  });
}

TEST(ZeroPitfall, P22_AFrozenUnitCostsTwoBytesAtEveryStageAndTier) {
  on_ranks(2, [](Communicator& world, Backend& backend) {
    Mesh mesh(world, {.data = 2});
    ParameterSpec spec = toy_spec("frozen", 64);
    spec.trainable = false;
    for (const Place& place : all_places()) {
      SCOPED_TRACE(place.text());
      const auto bytes = [&](Tier tier) {
        std::int64_t all = 0;
        for (const MemoryKind kind :
             {MemoryKind::kParameters, MemoryKind::kGradients, MemoryKind::kOptimizer})
          all += backend.ledger().entry(tier, kind).current;
        return all;
      };
      const std::int64_t before = bytes(Tier::kDevice);
      TieredToys toys({{"frozen", {spec}}}, backend, mesh, place, adamw(), DType::kBF16);
      const int shards = place.stage == 3 ? 2 : 1;
      EXPECT_EQ(bytes(Tier::kDevice) - before,
                place.weights == Tier::kDevice ? 2 * 64 / shards : 0);
      if (place.weights != Tier::kDisk) {  // whose slots have trailers
        EXPECT_EQ(bytes(Tier::kHost), place.weights == Tier::kHost ? 64 : 0);
      }
      toys[0].unit().begin_step(1);
      toys[0].unit().end_backward();
      toys.optimizer().step({});
      EXPECT_EQ(toys[0].values(), std::vector<double>(64, 1.0));
    }
  });
}

TEST(ZeroPitfall, P33_AStaleGradientIsNotUsedTwiceAtAnyStageOrTier) {
  on_ranks(2, [](Communicator& world, Backend& backend) {
    Mesh mesh(world, {.data = 2});
    for (const Place& place : all_places()) {
      SCOPED_TRACE(place.text());
      TieredToys toys({{"w", {toy_spec("w", 3)}}}, backend, mesh, place, sgd(1.0));
      toys[0].backward({{1, 1, 1}});
      EXPECT_EQ(toys.optimizer().step({}).grad_norm, std::sqrt(12.0));
      toys[0].backward({{0, 0, 0}});
      EXPECT_EQ(toys.optimizer().step({}).grad_norm, 0);
      toys[0].backward({{INFINITY, 1, 1}});
      EXPECT_TRUE(toys.optimizer().step({}).skipped);
      toys[0].backward({{}});
      EXPECT_EQ(toys.optimizer().step({}).grad_norm, 0);
      EXPECT_EQ(toys[0].values(), (std::vector<double>{-1, -1, -1}));
    }
  });
}

// Rank 1 leaves out one of three equal units. Every rank ends with an error, and none of them has
// trained on another unit's weights.
TEST(ZeroPitfall, P20_ARankThatSkipsAUnitFailsAtEveryStage) {
  for (int stage = 0; stage <= 3; ++stage) {
    SCOPED_TRACE(stage);
    std::string message;
    int applied = 0;
    std::mutex mutex;
    try {
      run_thread_ranks(2, {.timeout_seconds = 5}, [&](Communicator& world) {
        const auto backend = make_reference_backend(std::make_shared<MemoryLedger>());
        world.attach(*backend);
        Mesh mesh(world, {.data = 2});
        TieredToys toys({{"layers.1", {toy_spec("a", 4)}},
                         {"layers.2", {toy_spec("b", 4)}},
                         {"layers.3", {toy_spec("c", 4)}}},
                        *backend, mesh, {.stage = stage}, sgd(1.0));
        for (std::size_t u = 0; u < 3; ++u) toys[u].unit().begin_step(1);
        const auto used = [&](std::size_t u) { return u != 1 || world.rank() == 0; };
        for (std::size_t u = 0; u < 3; ++u)
          if (used(u)) toys[u].values();
        for (std::size_t u = 0; u < 3; ++u)
          if (used(u)) {
            toys[u].unit().gather();
            toys[u].unit().begin_backward();
            toys[u].unit().end_backward();
            toys[u].unit().release();
          }
        toys.optimizer().step({});
        const std::scoped_lock lock(mutex);
        ++applied;
      });
    } catch (const Error& e) {
      message = e.what();
    }
    EXPECT_EQ(applied, 0);
    EXPECT_NE(message, "");
    // A call that differs, or the unit whose backward is missing.
    EXPECT_TRUE(message.find("layers.2") != std::string::npos ||
                message.find("all_gather") != std::string::npos)
        << message;
  }
}

}  // namespace
}  // namespace trireme::test
