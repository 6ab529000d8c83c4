// Reported failures of ZeRO and offload in whole models, at every stage.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/autograd/ops.h"
#include "framework/backend/host_values.h"
#include "framework/nn/recompute.h"
#include "tensor_parallel/linear.h"
#include "tests/pitfalls/curves.h"
#include "tests/support/faulty_files.h"
#include "tests/support/tensors.h"
#include "tests/zero/toys.h"
#include "zero/sharded.h"

namespace trireme::pitfalls {
namespace {

using parity::random_samples;
using parity::tiny_gpt2;

constexpr OffloadTiers kAllOnDisk{
    .optimizer = Tier::kDisk, .gradients = Tier::kDisk, .parameters = Tier::kDisk, .tile = 211};

OffloadTiers legal_on_disk(int stage) {
  OffloadTiers tiers = kAllOnDisk;
  if (stage < 3) tiers.parameters = Tier::kDevice;
  return stage == 0 ? OffloadTiers{} : tiers;
}

// For tests of many steps.
ModelOptions tiniest() {
  ModelOptions model = tiny_gpt2();
  model.layers = 2;
  model.hidden = 8;
  model.heads = model.kv_heads = 2;
  model.ffn = 16;
  model.sequence = 4;
  return model;
}

// Copies that differ in a bit make LogicalTensors throw.
TEST(ZeroPitfall, P5_TiedCopiesAreEqualAfterTwentyStepsAtEveryStage) {
  const Task task{.model = tiniest(), .global_batch = 4, .steps = 20};
  const parity::Curve serial = parity::train(task, {});
  for (int stage = 0; stage <= 3; ++stage)
    for (const bool disk : {false, true}) {
      const Layout layout{.mesh = {.data = 2, .pipeline = 2},
                          .zero_stage = stage,
                          .offload = disk ? legal_on_disk(stage) : OffloadTiers{}};
      SCOPED_TRACE(text_of(layout));
      const parity::Curve curve = parity::train(task, layout);
      EXPECT_TRUE(test::close(curve.norms, serial.norms, 1e-10));
      EXPECT_LE(parity::distance(serial.weights, curve.weights), 1e-10);
    }
}

// loss = w * a + w * b over two uses of one unit, each a list entry of its own.
double gradient_of_two_uses(int stage, bool recompute, Tier gradients) {
  double gradient = 0;
  test::on_ranks(2, [&](Communicator& world, Backend& backend) {
    Mesh mesh(world, {.data = 2});
    KeepOnDevice kept;
    auto owned = std::make_unique<ColumnLinear>(
        TensorGroup{&mesh.tensor()}, LinearOptions{.name = "w", .inputs = 1, .bias = false},
        std::vector<ColumnPart>{even_part({&mesh.tensor()}, "w", 1)});
    ColumnLinear& linear = *owned;
    std::vector<Parameter*> parameters;
    linear.visit([&](Parameter& p) { parameters.push_back(&p); });
    UnitOptions options = test::toy_options(DType::kF64);
    options.policy = policy_of(stage);
    const FlatLayout layout(std::vector<const ParameterSpec*>{&parameters[0]->spec()}, 2, 8);
    const std::int64_t part =
        policy_of(stage).whole_gradients ? layout.padded() : layout.padded() / 2;
    std::unique_ptr<TiledStore> store;
    if (gradients == Tier::kHost)
      store = make_host_store(
          {.parts = {part}, .arrays = {DType::kF64}, .tile = 3, .kind = MemoryKind::kGradients},
          backend.shared_ledger());
    options.homes = {.host = &backend, .gradients = store.get()};
    Unit unit("w", parameters, backend, world, options);
    unit.add_user();
    unit.add_user();
    // One wrapper per use, as for a tied table.
    class Borrowed : public Module {
     public:
      explicit Borrowed(Module& inner) : inner_(inner) {}
      Var forward(const Context& ctx, const Var& x) override { return inner_.forward(ctx, x); }
      void visit(const ParameterFn& fn) override { inner_.visit(fn); }

     private:
      Module& inner_;
    };
    std::vector<ModulePtr> uses;
    for (int use = 0; use < 2; ++use) {
      uses.push_back(
          std::make_unique<Sharded>(std::make_unique<Borrowed>(linear), std::vector<Unit*>{&unit}));
      if (recompute) uses.back() = std::make_unique<Recompute>(std::move(uses.back()), kept);
    }
    ZeroOptimizer optimizer({&unit}, backend, mesh, test::sgd(1.0));
    unit.begin_step(2);
    Tape tape;
    const Context ctx{
        .backend = backend, .tape = &tape, .samples = 1, .tokens = 1, .compute = DType::kF64};
    // Half on each rank: the sum over data ranks is that of the whole.
    const Var a = make_var(test::tensor(backend, {1, 1}, DType::kF64, {2}), true);
    const Var b = make_var(test::tensor(backend, {1, 1}, DType::kF64, {5}), true);
    const Var y = add(ctx, uses[0]->forward(ctx, a), uses[1]->forward(ctx, b));
    y.grad->add(backend, test::tensor(backend, {1, 1}, DType::kF64, {0.5}));
    tape.run_backward();
    tape.drain();
    const double norm = optimizer.step({}).grad_norm;
    if (world.rank() == 0) gradient = norm;
  });
  return gradient;
}

TEST(ZeroPitfall, P11_AUnitUsedTwiceGetsBothGradientsAtEveryStage) {
  for (int stage = 0; stage <= 3; ++stage)
    for (const bool recompute : {false, true})
      for (const Tier tier : {Tier::kDevice, Tier::kHost}) {
        if (stage == 0 && tier != Tier::kDevice) continue;
        EXPECT_EQ(gradient_of_two_uses(stage, recompute, tier), 7)
            << stage << recompute << name_of(tier);
      }
}

TEST(ZeroPitfall, P22_FrozenParametersCostTwoBytesAtEveryStage) {
  const auto states = [](Rank& rank) {
    std::int64_t bytes = 0;
    for (const MemoryKind kind :
         {MemoryKind::kParameters, MemoryKind::kGradients, MemoryKind::kOptimizer})
      bytes += rank.backend.ledger().entry(Tier::kDevice, kind).current;
    return bytes;
  };
  Task task{.model = tiny_gpt2(), .global_batch = 4, .compute = DType::kBF16};
  task.model.tie_embeddings = false;
  const auto frozen = [](const std::string& name) {
    return name.starts_with("embedding.") || name.starts_with("layers.1.");
  };
  const SampleSource source = random_samples(task.model, task.seed);
  for (int stage = 0; stage <= 3; ++stage) {
    std::int64_t bytes = 0;
    const Layout layout{.mesh = {.data = 2}, .zero_stage = stage};
    run_layout(task, layout, [&](Rank& rank) {
      if (rank.first()) bytes = states(rank);
    });
    task.frozen = frozen;
    LogicalTensors before, after;
    run_layout(task, layout, [&](Rank& rank) {
      std::int64_t elements = 0;  // of frozen units, with their padding
      for (const Unit* unit : rank.engine.stage().units())
        if (!unit->trainable()) elements += unit->layout().padded();
      EXPECT_GT(elements, 3000);
      // Gradients 4, master and moments 12: all of them are gone.
      const std::int64_t gone = stage == 0   ? 16 * elements
                                : stage == 1 ? 4 * elements + 12 * elements / 2
                                             : 16 * elements / 2;
      if (rank.first()) {
        EXPECT_EQ(bytes - states(rank), gone) << "stage " << stage;
      }
      before.add_weights(rank);
      for (int step = 0; step < 3; ++step) rank.engine.train(step, source);
      after.add_weights(rank);
    });
    task.frozen = {};
    for (const auto& [name, values] : after.tensors()) {
      if (frozen(name)) {
        EXPECT_EQ(values, before.tensors().at(name)) << name;
      } else if (name.ends_with("mlp.up.weight")) {  // norms near 1 may stay in bf16
        EXPECT_NE(values, before.tensors().at(name)) << name;
      }
    }
  }
}

TEST(Pitfall, AModelWithNothingToTrainIsRefused) {
  Task task{.model = tiny_gpt2(), .global_batch = 4};
  task.frozen = [](const std::string&) { return true; };
  for (const int stage : {0, 3})
    EXPECT_EQ(testing::sentence_of([&] {
                run_layout(task,
                           {.mesh = {.data = 2, .pipeline = 2},
                            .zero_stage = stage,
                            .offload = legal_on_disk(stage)},
                           [](Rank&) {});
              }),
              "the model has no parameter that is trained: all are frozen");
}

// The peak of every tier in step 3 is that of step 50.
TEST(ZeroPitfall, P30_MemoryDoesNotGrowWithStepsAtAnyStage) {
  Task task{.model = tiniest(), .global_batch = 4, .compute = DType::kBF16};
  const SampleSource source = random_samples(task.model, task.seed);
  std::vector<Layout> layouts;
  for (int stage = 0; stage <= 3; ++stage)
    layouts.push_back({.mesh = {.data = 2},
                       .recompute = RecomputeMode::kFull,
                       .zero_stage = stage,
                       .offload = legal_on_disk(stage)});
  layouts.back().offload.activations = Tier::kDisk;
  layouts.push_back(layouts.back());
  layouts.back().offload = {Tier::kHost, Tier::kHost, Tier::kHost, Tier::kHost, 211};
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(text_of(layout));
    run_layout(task, layout, [&](Rank& rank) {
      MemoryLedger& ledger = rank.backend.ledger();
      const auto taken = [&](bool peak) {
        std::vector<std::int64_t> bytes;
        for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk})
          bytes.push_back(peak ? ledger.peak(tier) : ledger.current(tier));
        return bytes;
      };
      std::vector<std::int64_t> peak, resident;
      for (int step = 1; step <= 50; ++step) {
        ledger.reset_peaks();
        rank.engine.train(step, source);
        if (step == 3) {
          peak = taken(true);
          resident = taken(false);
        }
      }
      EXPECT_EQ(taken(true), peak);
      EXPECT_EQ(taken(false), resident);
    });
  }
}

// At stage 3 a further layer costs its shard and its kept input, and nothing else.
TEST(ZeroPitfall, P30_ALayerCostsItsShardAndItsKeptInput) {
  const auto peak_and_layer = [](std::int64_t layers, bool offload) {
    Task task{.model = tiny_gpt2(), .global_batch = 4, .compute = DType::kF32};
    task.model.layers = layers;
    std::pair<std::int64_t, std::int64_t> result;
    const Layout layout{.mesh = {.data = 2},
                        .micro = 2,
                        .recompute = RecomputeMode::kFull,
                        .zero_stage = 3,
                        .offload = offload ? kAllOnDisk : OffloadTiers{}};
    run_layout(task, layout, [&](Rank& rank) {
      const SampleSource source = random_samples(task.model, task.seed);
      rank.engine.train(0, source);
      rank.backend.ledger().reset_peaks();
      rank.engine.train(1, source);
      if (rank.first())
        result = {rank.backend.ledger().peak(Tier::kDevice),
                  rank.engine.stage().units()[2]->layout().padded()};
    });
    return result;
  };
  for (const bool offload : {false, true}) {
    const auto [eight, layer] = peak_and_layer(8, offload);
    const auto [sixteen, same] = peak_and_layer(16, offload);
    EXPECT_EQ(layer, same);
    const std::int64_t kept = 2 * 8 * 16 * 4;                 // samples, tokens, channels, bytes
    const std::int64_t shard = offload ? 0 : 16 * layer / 2;  // weight, gradient, m, v: 4 each
    EXPECT_EQ(sixteen - eight, 8 * (shard + kept));
  }
}

}  // namespace
}  // namespace trireme::pitfalls
