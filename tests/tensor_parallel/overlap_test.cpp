// Weight gradients are computed while input gradients are being summed: the order says so, and slow
// peers change no bit.
#include <gtest/gtest.h>

#include "tensor_parallel/mlp.h"
#include "tests/support/logged_communicator.h"
#include "tests/support/ranks.h"
#include "tests/support/tensors.h"
#include "zero/optimizer.h"
#include "zero/sharded.h"

namespace trireme::test {
namespace {

using Log = std::vector<std::string>;

TEST(Overlap, QueuedWorkRunsBetweenStartAndWait) {
  for (bool sequence_parallel : {false, true})
    for (bool split : {false, true})
      on_ranks(2, [&](Communicator& world, Backend& backend) {
        Log log;
        LoggedCommunicator tensor_axis(world, log);
        Tape tape;
        const Context ctx{.backend = backend,
                          .tape = &tape,
                          .tokens = 2,
                          .sequence_parallel = sequence_parallel,
                          .compute = DType::kF64};
        tape.record([&] {
          tape.later([&] { log.push_back("dW"); });
          sum_backward(ctx, {&tensor_axis}, tensor(backend, {2, 1}, DType::kF64, {1, 2}));
          log.push_back("dX");
        });
        split ? tape.run_backward_input() : tape.run_backward();
        tape.drain();
        const std::string name = sequence_parallel ? "reduce_scatter" : "all_reduce";
        EXPECT_EQ(log, (split ? Log{"start " + name, "wait " + name, "dX", "dW"}
                              : Log{"start " + name, "dW", "wait " + name, "dX"}));
      });
}

TEST(Overlap, AUnitsReductionStartsWithItsLastBackwardAndIsWaitedForAtTheStep) {
  on_ranks(2, [](Communicator& world, Backend& backend) {
    Log log;
    LoggedCommunicator data(world, log);
    Parameter p({.name = "p", .shape = {4}, .sections = {whole_section("p", {4})}});
    Unit unit("unit", {&p}, backend, data, {.compute = DType::kF64, .gradients = DType::kF64});
    unit.begin_step(2);
    unit.end_backward();
    EXPECT_TRUE(log.empty());
    unit.end_backward();
    log.push_back("earlier layers");
    unit.finish_reduction();
    EXPECT_EQ(log, (Log{"start reduce_scatter", "earlier layers", "wait reduce_scatter"}));
  });
}

// Weights after three steps of an MLP under sequence parallelism on 2 x 2 ranks.
std::vector<std::vector<double>> trained(bool slow) {
  std::vector<std::vector<double>> weights(4);
  on_ranks(4, [&](Communicator& world, Backend& backend) {
    Mesh mesh(world, {.data = 2, .tensor = 2});
    Log log;
    const auto delay = [&](int call) {
      return slow
                 ? static_cast<int>(
                       random_word(key_from_seed(9).child(static_cast<std::uint64_t>(world.rank())),
                                   static_cast<std::uint64_t>(call)) %
                       2000)
                 : 0;
    };
    LoggedCommunicator tensor_axis(mesh.tensor(), log, delay), data(mesh.data(), log, delay);
    auto mlp = std::make_unique<Mlp>(TensorGroup{&tensor_axis}, "mlp",
                                     MlpOptions{.columns = 4, .ffn = 8, .sequence_parallel = true});
    std::vector<Parameter*> parameters;
    mlp->visit([&](Parameter& p) { parameters.push_back(&p); });
    Unit unit("mlp", parameters, backend, data, {.compute = DType::kF64, .gradients = DType::kF64});
    Sharded top(std::move(mlp), {&unit});
    ZeroOptimizer optimizer({&unit}, backend, mesh, {.schedule = {.lr = 0.01}, .seed = 3});
    for (std::uint64_t step = 0; step < 3; ++step) {
      Tape tape;
      const Context ctx{.backend = backend,
                        .tape = &tape,
                        .tokens = 4,
                        .sequence_parallel = true,
                        .compute = DType::kF64};
      const std::uint64_t seed = 10 * step + static_cast<std::uint64_t>(world.rank());
      unit.begin_step(1);
      Var y = top.forward(ctx, make_var(random_tensor(backend, {2, 4}, DType::kF64, seed), true));
      y.grad->add(backend, random_tensor(backend, {2, 4}, DType::kF64, seed + 100));
      tape.run_backward();
      optimizer.step({});
    }
    weights[static_cast<std::size_t>(world.rank())] = values(backend, unit.weights().device());
  });
  return weights;
}

TEST(ZeroPitfall, P12_SlowCollectivesChangeNoBit) {
  const auto quick = trained(false);
  EXPECT_NE(quick[0], quick[1]);
  EXPECT_EQ(quick[0], quick[2]);  // data replicas
  for (int i = 0; i < 3; ++i) EXPECT_EQ(trained(true), quick);
}

}  // namespace
}  // namespace trireme::test
