// Reported failures of tensor-parallel code, each with the value that it should have given. Numbers
// are those of our list of public reports; names begin with them.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/autograd/ops.h"
#include "framework/backend/host_values.h"
#include "tensor_parallel/attention.h"
#include "tensor_parallel/head.h"
#include "tensor_parallel/mlp.h"
#include "tests/support/tensors.h"
#include "tests/tensor_parallel/head_run.h"
#include "tests/tensor_parallel/module_run.h"
#include "zero/optimizer.h"

namespace trireme::test {
namespace {

TEST(Pitfall, P1_PaddingOfTheVocabularyIsNotInTheSoftmax) {
  for (double smoothing : {0.0, 0.1}) {
    const HeadResult result = run_head(2, {.vocab = 5,
                                           .columns = 2,
                                           .table = std::vector<double>(10, 0.0),
                                           .h = {1, 2, 3, 4, 5, 6},
                                           .labels = {0, 3, 4},
                                           .smoothing = smoothing});
    EXPECT_NEAR(result.loss, std::log(5.0), 1e-15);  // 1.6094, not ln 6 = 1.7918
    ASSERT_EQ(result.table_rows[1].size(), 6U);
    EXPECT_EQ(result.table_rows[1][4], 0.0);
    EXPECT_EQ(result.table_rows[1][5], 0.0);
  }
  // 4 x 2 rows for 5 tokens: a rank with padding alone.
  const HeadCase five{.vocab = 5,
                      .columns = 2,
                      .table = normals(5 * 2, 1),
                      .h = normals(3 * 2, 2),
                      .labels = {0, 3, 4},
                      .smoothing = 0.1};
  const HeadResult serial = run_head(1, five), four = run_head(4, five);
  EXPECT_NEAR(four.loss, serial.loss, 1e-14);
  EXPECT_TRUE(close(four.dh, serial.dh, 1e-14));
  EXPECT_EQ(four.table_rows[3], (std::vector<double>{0, 0, 0, 0}));
}

// A head makes its own logits, so nobody can hand it gathered ones; the loss would be ln 2 too
// high.
TEST(Pitfall, P3_TheLossIsThatOfShardedLogits) {
  const HeadCase four{.vocab = 4,
                      .columns = 2,
                      .table = normals(4 * 2, 1),
                      .h = normals(3 * 2, 2),
                      .labels = {0, 3, 1}};
  const double serial = run_head(1, four).loss;
  for (int ranks : {2, 4}) EXPECT_NEAR(run_head(ranks, four).loss, serial, 1e-14);
}

TEST(Pitfall, P4_EveryShardLearnsFromEveryTarget) {
  const std::vector<double> logits = {0.5, -1, 2, 0.25};  // h = 1, so the table is the logits
  const HeadResult result =
      run_head(2, {.vocab = 4, .columns = 1, .table = logits, .h = {1}, .labels = {0}});
  double sum = 0;
  for (double z : logits) sum += std::exp(z);
  EXPECT_TRUE(close(result.table_rows[0], {std::exp(0.5) / sum - 1, std::exp(-1.0) / sum}, 1e-15));
  EXPECT_TRUE(close(result.table_rows[1], {std::exp(2.0) / sum, std::exp(0.25) / sum}, 1e-15));
}

// Tensors are always contiguous; a view is a region of its storage, and a sum must arrive there.
TEST(Pitfall, P5_ASumOverAViewArrivesInTheStorage) {
  on_ranks(2, [](Communicator& world, Backend& backend) {
    const Tensor whole = tensor(backend, {4, 2}, DType::kF64, std::vector<double>(8, 1.0));
    world.all_reduce(whole.sliced_rows(1, 3)).wait();
    EXPECT_EQ(values(backend, whole), (std::vector<double>{1, 1, 2, 2, 2, 2, 1, 1}));
    world.all_reduce(whole.reshaped({2, 4})).wait();
    EXPECT_EQ(values(backend, whole), (std::vector<double>{2, 2, 4, 4, 4, 4, 2, 2}));
  });
}

TEST(Pitfall, P6_RowBiasAddedOnce) {
  for (int ranks : {1, 2, 4})
    on_ranks(ranks, [](Communicator& world, Backend& backend) {
      RowLinear row({&world}, {.name = "row", .inputs = 8}, 3, false);
      const auto alone = make_self_communicator();
      alone->attach(backend);
      std::vector<Parameter*> parameters;
      row.visit([&](Parameter& p) { parameters.push_back(&p); });
      Unit unit("row", parameters, backend, *alone,
                {.compute = DType::kF64, .gradients = DType::kF64});
      unit.load_values([](const Section&, std::int64_t,
                          std::span<double> out) { std::fill(out.begin(), out.end(), 1.0); },
                       {});
      Tape tape;
      const Context ctx{.backend = backend, .tape = &tape, .tokens = 2, .compute = DType::kF64};
      const Var y = row.forward(
          ctx, {backend.zeros({2, 8 / world.size()}, DType::kF64, MemoryKind::kWorkspace)});
      EXPECT_EQ(values(backend, y.value), std::vector<double>(6, 1.0));
      y.grad->add(backend, tensor(backend, {2, 3}, DType::kF64, {1, 2, 3, 10, 20, 30}));
      tape.run_backward();
      EXPECT_EQ(values(backend, parameters[1]->grad), (std::vector<double>{11, 22, 33}));
    });
}

// All three gradients, for each of {sequence parallel, split}: module_test.cpp does so for every
// module; this is the report's own case, four ranks.
TEST(Pitfall, P9_InputAndWeightGradientsOfEveryFlag) {
  const ModuleCase module{
      .build = [](const TensorGroup& group, bool sequence_parallel) -> ModulePtr {
        return std::make_unique<Mlp>(
            group, "mlp",
            MlpOptions{.columns = 4, .ffn = 8, .sequence_parallel = sequence_parallel});
      },
      .inputs = 4,
      .outputs = 4};
  expect_same_for_all(module, {4}, true);
}

// Rows of a region under sequence parallelism draw the masks of their global places.
class Masked : public Module {
 public:
  explicit Masked(const TensorGroup& group) : group_(group) {}
  Var forward(const Context& ctx, const Var& x) override {
    return dropout(ctx, x,
                   {.site = 3,
                    .p = 0.5,
                    .first_row = first_global_row(ctx, group_, x.value.rows(), ctx.tokens)});
  }

 private:
  TensorGroup group_;
};

TEST(Pitfall, P11_MasksOfShardsAreSlicesOfTheWholeMask) {
  const ModuleCase module{.build = [](const TensorGroup& group, bool) -> ModulePtr {
                            return std::make_unique<Masked>(group);
                          },
                          .samples = 1,
                          .tokens = 8,
                          .inputs = 6,
                          .outputs = 6,
                          .rng = key_from_seed(1)};
  const ModuleResult serial = run_module(module, {});
  for (int ranks : {2, 4})
    EXPECT_EQ(run_module(module, {.ranks = ranks, .sequence_parallel = true}).y, serial.y);
  std::vector<bool> dropped;
  for (double v : serial.y) dropped.push_back(v == 0.0);
  EXPECT_NE(std::vector<bool>(dropped.begin(), dropped.begin() + 24),
            std::vector<bool>(dropped.begin() + 24, dropped.end()));
}

TEST(Pitfall, P16_IllegalHeadsNameTheLegalRanks) {
  std::string message;
  try {
    on_ranks(8, [](Communicator& world, Backend&) {
      SelfAttention({&world}, "attention",
                    {.columns = 96, .heads = 12, .kv_heads = 12, .head_dim = 8});
    });
  } catch (const Error& e) {
    message = e.what();
  }
  EXPECT_EQ(message,
            "12 attention heads cannot be split over 8 tensor ranks; use 1, 2, 3, 4, 6 or 12");
}

}  // namespace
}  // namespace trireme::test
