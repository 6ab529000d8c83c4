// The step: order, clip, schedule, stop, loss.
#include "zero/optimizer.h"

#include <cmath>

#include "tests/support/tensors.h"
#include "tests/zero/toys.h"

namespace trireme::test {
namespace {

TEST(ZeroOptimizer, ClipsByTheWholeNormAndReportsItBefore) {
  on_ranks(2, [](Communicator& world, Backend& backend) {
    ToyUnit toy({toy_spec("a", 2)}, backend, world);
    Mesh mesh(world, {.data = 2});
    ZeroOptions options = sgd(1.0);
    options.clip = 1.0;
    ZeroOptimizer optimizer({&toy.unit()}, backend, mesh, options);
    toy.backward({{1.5, 2}});  // the sum is (3, 4)
    const StepResult result = optimizer.step({});
    EXPECT_EQ(result.grad_norm, 5);
    const double factor = 1 / (5 + 1e-6);
    EXPECT_TRUE(close(toy.values(), {1 - 3 * factor, 1 - 4 * factor}, 1e-15));
  });
}

// A norm over the limit is told and changes nothing, at the limit it is none; on all ranks alike.
TEST(ZeroOptimizer, ASpikeIsToldAndChangesNothing) {
  on_ranks(2, [](Communicator& world, Backend& backend) {
    ToyUnit toy({toy_spec("a", 2)}, backend, world);
    Mesh mesh(world, {.data = 2});
    ZeroOptions options = sgd(1.0);
    options.stop_on_norm = 5;
    options.loss_scale = {.dynamic = true, .initial = 1, .window = 1};
    ZeroOptimizer optimizer({&toy.unit()}, backend, mesh, options);
    toy.backward({{1.5, 2 + 1e-12 * world.rank()}});  // the sum is (3, 4) and a little
    const StepResult spiked = optimizer.step({});
    EXPECT_TRUE(spiked.spiked);
    EXPECT_FALSE(spiked.skipped);
    EXPECT_GT(spiked.grad_norm, 5);
    EXPECT_EQ(toy.values(), (std::vector<double>{1, 1}));
    EXPECT_EQ(optimizer.steps_taken(), 0);
    EXPECT_EQ(optimizer.loss_scale(), 1);
    toy.backward({{1.5, 2}});
    const StepResult calm = optimizer.step({});
    EXPECT_FALSE(calm.spiked);
    EXPECT_EQ(calm.grad_norm, 5);
    EXPECT_EQ(toy.values(), (std::vector<double>{-2, -3}));
    EXPECT_EQ(optimizer.steps_taken(), 1);
    EXPECT_EQ(optimizer.loss_scale(), 2);
    toy.backward({{NAN, 2}});
    EXPECT_TRUE(optimizer.step({.loss_scale = 2}).skipped);
  });
}

TEST(ZeroOptimizer, AddsLossesAndSharesWishes) {
  on_ranks(3, [](Communicator& world, Backend& backend) {
    ToyUnit toy({toy_spec("a", 1)}, backend, world);
    Mesh mesh(world, {.data = 3});
    ZeroOptimizer optimizer({&toy.unit()}, backend, mesh, sgd(1.0));
    toy.backward({{0}});
    Tensor loss = tensor(backend, {1}, DType::kF64, {world.rank() + 0.5});
    EXPECT_EQ(optimizer.step({.loss = world.rank() == 1 ? Tensor() : loss}).wishes.stop, 0);
    toy.backward({{0}});
    const StepResult result = optimizer.step(
        {.wishes = {.stop = world.rank() == 2 ? 1.0 : 0.0, .written = 1}, .loss = loss});
    EXPECT_EQ(result.wishes.stop, 1);
    EXPECT_EQ(result.wishes.save, 0);
    EXPECT_EQ(result.wishes.written, world.size());
    EXPECT_EQ(result.loss, 4.5);
    EXPECT_FALSE(result.skipped);
    toy.backward({{0}});
    const StepResult saved =
        optimizer.step({.wishes = {.save = world.rank() == 0 ? 1.0 : 0.0}, .loss = loss});
    EXPECT_EQ(saved.wishes.save, 1);
    EXPECT_EQ(saved.wishes.stop, 0);
  });
}

// Ranges with and without decay side by side, in one unit.
TEST(ZeroOptimizer, DecaysByGroups) {
  on_ranks(1, [](Communicator& world, Backend& backend) {
    ParameterSpec decays = toy_spec("w", 3);
    decays.decay = true;
    ToyUnit toy({toy_spec("a", 2), decays, decays, toy_spec("b", 1)}, backend, world);
    Mesh mesh(world, {});
    ZeroOptions options = sgd(1.0);
    options.optimizer.weight_decay = 0.25;
    ZeroOptimizer optimizer({&toy.unit()}, backend, mesh, options);
    toy.backward({{0, 0}, {0, 0, 0}, {0, 0, 0}, {0}});
    optimizer.step({});
    EXPECT_EQ(toy.values(0), (std::vector<double>{1, 1}));
    EXPECT_EQ(toy.values(1), (std::vector<double>{0.75, 0.75, 0.75}));
    EXPECT_EQ(toy.values(2), (std::vector<double>{0.75, 0.75, 0.75}));
    EXPECT_EQ(toy.values(3), std::vector<double>{1});
  });
}

// Sums over tensor ranks, kv replicas and ends happen once each, on what their segments name.
TEST(ZeroOptimizer, SumsWhatDescriptorsName) {
  on_ranks(4, [](Communicator& world, Backend& backend) {
    Mesh mesh(world, {.tensor = 4});
    ZeroOptions options = sgd(1.0);
    options.kv_replicas = &mesh.kv_replicas(2);
    ToyUnit toy({toy_spec("alone", 1), toy_spec("norm", 2, SumGroup::kTensor, world.rank() == 0),
                 toy_spec("kv", 1, SumGroup::kKvReplicas, world.rank() % 2 == 0)},
                backend, mesh.data());
    ZeroOptimizer optimizer({&toy.unit()}, backend, mesh, options);
    const double mine = 1 << world.rank();  // 1, 2, 4, 8
    toy.backward({{mine}, {mine, 2 * mine}, {mine}});
    const StepResult result = optimizer.step({});
    EXPECT_EQ(toy.gradient(0), std::vector<double>{mine});
    EXPECT_EQ(toy.gradient(1), (std::vector<double>{15, 30}));
    EXPECT_EQ(toy.gradient(2), std::vector<double>{world.rank() < 2 ? 3.0 : 12.0});
    EXPECT_DOUBLE_EQ(result.grad_norm, std::sqrt(1 + 4 + 16 + 64 + 225 + 900 + 9 + 144.0));
  });
}

}  // namespace
}  // namespace trireme::test
