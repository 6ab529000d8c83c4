// Every case of the list on every backend: within tolerance of the reference in f64, the same bits
// twice, NaN passed on.
#include <cmath>

#include "tests/conformance/backend/backends.h"
#include "tests/conformance/backend/op_case.h"
#include "tests/support/tensors.h"

namespace trireme::test {
namespace {

double tolerance(Type type, DType compute) {
  if (compute == DType::kF64) return 1e-13;
  // Sums and statistics are wide whatever the operands are, and so are f64 totals made from them.
  if (compute == DType::kBF16 && type == Type::kCompute) return 1.5e-2;
  if (compute == DType::kF16 && type == Type::kCompute) return 2e-3;
  return 2e-5;
}

class Conformance : public ::testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    std::string why;
    backend_ = make(GetParam(), why);
    if (!backend_) GTEST_SKIP() << why;
  }
  DType compute() const { return GetParam().compute; }

  std::unique_ptr<Backend> backend_;
};

TEST_P(Conformance, AgreesWithTheReferenceInF64) {
  const auto reference = make_reference_backend(std::make_shared<MemoryLedger>());
  for (const OpCase& op : all_cases()) {
    SCOPED_TRACE(op.name());
    const auto expected = run(op, *reference, DType::kF64, compute());
    const auto got = run(op, *backend_, compute(), compute());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(close(got[i], expected[i], tolerance(op.operands()[i].type, compute())))
          << "operand " << i;
  }
}

TEST_P(Conformance, GivesTheSameBitsTwice) {
  for (const OpCase& op : all_cases()) {
    const auto first = run(op, *backend_, compute(), compute());
    EXPECT_EQ(first, run(op, *backend_, compute(), compute())) << op.name();
  }
}

bool any_nan(const std::vector<std::vector<double>>& results) {
  for (const auto& values : results)
    for (double value : values)
      if (std::isnan(value)) return true;
  return false;
}

bool any_empty(const OpCase& op) {
  for (const Operand& operand : op.operands())
    if (operand.values.empty()) return true;
  return false;
}

TEST_P(Conformance, PassesNanOn) {
  for (const OpCase& op : all_cases()) {
    if (any_empty(op)) continue;  // nothing is computed from the other operands then
    ASSERT_FALSE(any_nan(run(op, *backend_, compute(), compute()))) << op.name();
    for (std::size_t i = 0; i < op.operands().size(); ++i) {
      const Operand& operand = op.operands()[i];
      if (operand.use == Use::kOutput || !operand.nan_passes) continue;
      const OpCase poisoned = with_nan(op, i);
      EXPECT_TRUE(any_nan(run(poisoned, *backend_, compute(), compute())))
          << op.name() << ", operand " << i;
    }
  }
}

TEST_P(Conformance, GivesAllMemoryBack) {
  for (const OpCase& op : all_cases()) run(op, *backend_, compute(), compute());
  // Workspaces that a backend keeps are its own; tensors are not.
  for (MemoryKind kind :
       {MemoryKind::kActivations, MemoryKind::kGradients, MemoryKind::kParameters})
    EXPECT_EQ(backend_->ledger().entry(Tier::kDevice, kind).current, 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, Conformance, ::testing::ValuesIn(all_targets()),
                         [](const auto& target) { return text(target.param); });

}  // namespace
}  // namespace trireme::test
