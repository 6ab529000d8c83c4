#include "framework/nn/module.h"

#include "framework/nn/norm.h"
#include "tests/support/tensors.h"

namespace trireme::test {
namespace {

TEST(Sequence, VisitsInOrderAndKnowsWhoWantsGradients) {
  std::vector<ModulePtr> parts;
  parts.push_back(std::make_unique<Norm>("first", NormOptions{.columns = 2}));
  parts.push_back(
      std::make_unique<Norm>("second", NormOptions{.kind = NormKind::kRmsNorm, .columns = 2}));
  Sequence sequence(std::move(parts));
  std::string names;
  sequence.visit([&](Parameter& p) { names += p.name() + " "; });
  EXPECT_EQ(names, "first.weight first.bias second.weight ");
  EXPECT_TRUE(wants_grad(sequence));
  sequence.visit([](Parameter& p) { p.freeze(); });
  EXPECT_FALSE(wants_grad(sequence));
}

// Frozen norms hand gradients on and get none themselves.
TEST(Norm, FrozenWeightsGetNoGradient) {
  const auto backend = make_reference_backend(std::make_shared<MemoryLedger>());
  Norm norm("n", {.columns = 2});
  norm.visit([&](Parameter& p) {
    p.freeze();
    p.value = tensor(*backend, {2}, DType::kF64, {1, 2});
  });
  Tape tape;
  const Context ctx{.backend = *backend, .tape = &tape, .compute = DType::kF64};
  const Var x = make_var(tensor(*backend, {1, 2}, DType::kF64, {1, 5}), true);
  const Var y = norm.forward(ctx, x);
  y.grad->add(*backend, tensor(*backend, {1, 2}, DType::kF64, {1, 1}));
  tape.run_backward();
  EXPECT_FALSE(x.grad->empty());
}

}  // namespace
}  // namespace trireme::test
