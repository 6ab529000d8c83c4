// A unit at stage 0: parameters point into it, gradients are summed once, what nobody used is zero.
#include "zero/unit.h"

#include <cmath>

#include "framework/base/error.h"
#include "tests/support/tensors.h"
#include "tests/zero/toys.h"

namespace trireme::test {
namespace {

TEST(Unit, PointsParametersIntoItsBuffers) {
  on_ranks(1, [](Communicator& world, Backend& backend) {
    ParameterSpec frozen = toy_spec("frozen", 3);
    frozen.trainable = false;
    ToyUnit toy({toy_spec("a", 5), frozen, toy_spec("empty", 0)}, backend, world);
    EXPECT_EQ(toy.values(0), std::vector<double>(5, 0.0));
    toy.unit().fill_initial(1, {});
    EXPECT_EQ(toy.values(0), std::vector<double>(5, 1.0));
    EXPECT_EQ(toy.parameter(1).value.data(),
              toy.unit().weights().device().elements_at(5, {3}).data());
    EXPECT_FALSE(toy.parameter(1).grad);
    EXPECT_TRUE(toy.parameter(2).grad);
    EXPECT_EQ(toy.unit().weights().device().elements(), 8);
    const std::vector<double> flat = download_doubles(backend, toy.unit().weights().device());
    EXPECT_EQ(flat, std::vector<double>(8, 1.0));
  });
}

TEST(Unit, SumsOverDataRanksOntoTheOwnShard) {
  on_ranks(4, [](Communicator& world, Backend& backend) {
    ToyUnit toy({toy_spec("a", 20)}, backend, world);  // padded to 32: rank 3 holds padding alone
    toy.backward({std::vector<double>(20, world.rank() + 1.0)});
    toy.unit().finish_reduction();
    const Range own = toy.unit().own_shard();
    std::vector<double> expected(8, 0.0);
    for (std::int64_t i = own.begin; i < std::min<std::int64_t>(20, own.end); ++i)
      expected[static_cast<std::size_t>(i - own.begin)] = 10;
    EXPECT_EQ(values(backend, toy.unit().gradients().slice(own)), expected);
  });
}

TEST(Unit, UnusedParametersHaveZeroGradients) {
  on_ranks(2, [](Communicator& world, Backend& backend) {
    ToyUnit toy({toy_spec("a", 2), toy_spec("b", 2)}, backend, world);
    Mesh mesh(world, {.data = 2});
    ZeroOptimizer optimizer({&toy.unit()}, backend, mesh, sgd(1.0));
    toy.backward({{1, 1}, {2, 2}});
    optimizer.step({});
    toy.backward({{1, 1}, {}});
    const StepResult result = optimizer.step({});
    EXPECT_EQ(toy.gradient(1), (std::vector<double>{0, 0}));
    EXPECT_EQ(result.grad_norm, std::sqrt(8.0));
    EXPECT_EQ(toy.values(0), (std::vector<double>{-3, -3}));
    EXPECT_EQ(toy.values(1), (std::vector<double>{-3, -3}));
  });
}

TEST(Unit, CountsItsBackwardPasses) {
  on_ranks(1, [](Communicator& world, Backend& backend) {
    ToyUnit toy({toy_spec("a", 2)}, backend, world);
    toy.unit().begin_step(2);
    toy.unit().end_backward();
    EXPECT_THROW(toy.unit().finish_reduction(), Error);
    EXPECT_THROW(toy.unit().begin_step(1), Error);
    toy.unit().end_backward();
    EXPECT_THROW(toy.unit().end_backward(), Error);
    toy.unit().finish_reduction();
  });
}

TEST(Unit, LoadsRectanglesOfLogicalTensors) {
  on_ranks(1, [](Communicator& world, Backend& backend) {
    ToyUnit toy({toy_spec("a", 2), toy_spec("b", 3)}, backend, world, DType::kBF16);
    Mesh mesh(world, {});
    ZeroOptimizer optimizer({&toy.unit()}, backend, mesh, sgd(1.0));
    const double fine = 1 + 0x1p-12;  // not a bf16
    optimizer.load_values([&](const Section& s, std::int64_t columns, std::span<double> out) {
      EXPECT_EQ(columns, 1);
      std::fill(out.begin(), out.end(), s.name == "a" ? fine : 3.0);
    });
    EXPECT_EQ(toy.values(0), (std::vector<double>{1, 1}));
    EXPECT_EQ(toy.values(1), (std::vector<double>{3, 3, 3}));
    toy.backward({{1, 1 - 0x1p-7}, {}});  // the master still has the fine part
    optimizer.step({});
    EXPECT_EQ(toy.values(0), (std::vector<double>{0x1p-12, 0x1p-7 + 0x1p-12}));
  });
}

}  // namespace
}  // namespace trireme::test
