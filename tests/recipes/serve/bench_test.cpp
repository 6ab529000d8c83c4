#include "recipes/serve/bench.h"

#include <gtest/gtest.h>

#include "tests/parity/train_layout.h"

namespace trireme::test {
namespace {

TEST(Bench, NamesAreThoseOfLlamaBench) {
  EXPECT_EQ((BenchTest{.prompt = 512}).name(), "pp512");
  EXPECT_EQ((BenchTest{.generate = 128}).name(), "tg128");
  EXPECT_EQ((BenchTest{.generate = 128, .batch = 8, .depth = 512}).name(), "tg128 x 8 @ d512");
  EXPECT_EQ((BenchTest{.generate = 128, .batch = 8}).tokens(), 1024);
}

TEST(Bench, ARunOnEveryRank) {
  ModelOptions model = parity::tiny_llama(2);
  model.sequence = 64;
  const parity::Task task{.model = model, .compute = DType::kF32};
  for (const parity::Layout& layout : {parity::Layout{.mesh = {.pipeline = 2, .tensor = 2}},
                                       parity::Layout{.mesh = {.data = 2, .pipeline = 2}},
                                       parity::Layout{.mesh = {.data = 2}, .zero_stage = 3}})
    parity::run_layout(task, layout, [&](parity::Rank& rank) {
      const RankParts parts{rank.engine, rank.mesh, rank.backend};
      for (const BenchTest& t :
           {BenchTest{.prompt = 1}, BenchTest{.prompt = 20}, BenchTest{.generate = 4, .batch = 7},
            BenchTest{.generate = 3}, BenchTest{.generate = 2, .batch = 2, .depth = 17}}) {
        const std::vector<double> seconds = bench(parts, t, 2);
        ASSERT_EQ(seconds.size(), rank.first() ? 2u : 0u);
        EXPECT_TRUE(seconds.empty() || seconds[0] > 0);
      }
    });
}

// Two groups of texts are in flight; of four texts a replica has two, one a group.
TEST(Bench, ReplicasAndStagesShareTheTexts) {
  ModelOptions model = parity::tiny_llama(2);
  model.sequence = 64;
  const parity::Task task{.model = model, .compute = DType::kF32};
  const auto sent = [&](const MeshShape& mesh, std::int64_t batch) {
    std::int64_t bytes = 0;
    parity::run_layout(task, {.mesh = mesh}, [&](parity::Rank& rank) {
      rank.mesh.world().reset_traffic();
      bench({rank.engine, rank.mesh, rank.backend}, {.generate = 4, .batch = batch}, 1);
      if (rank.first()) {
        const auto all = rank.mesh.world().traffic();
        for (const auto& [name, entry] : all)
          if (name == "pipeline/send") bytes = entry.bytes;
      }
    });
    return bytes;
  };
  // A run warms up, one counts: 2 runs x 4 tokens x 2 groups.
  const std::int64_t passes = 2 * 4 * 2, row = model.hidden * 4;
  EXPECT_EQ(sent({.pipeline = 2}, 4) - sent({.data = 2, .pipeline = 2}, 4), passes * row);
  EXPECT_LT(sent({.data = 2, .pipeline = 2}, 1), sent({.data = 2, .pipeline = 2}, 4) * 2 / 3);
}

// Asked before each pass: of a run that warms up and three that count, the second one is cut.
TEST(Bench, EndsBetweenPasses) {
  ModelOptions model = parity::tiny_llama(2);
  model.sequence = 64;
  const parity::Task task{.model = model, .compute = DType::kF32};
  for (const parity::Layout& layout :
       {parity::Layout{}, parity::Layout{.mesh = {.pipeline = 2, .tensor = 2}},
        parity::Layout{.mesh = {.data = 2}, .zero_stage = 3}})
    parity::run_layout(task, layout, [&](parity::Rank& rank) {
      int asked = 0;
      const std::vector<double> seconds = bench({rank.engine, rank.mesh, rank.backend},
                                                {.generate = 4}, 3, [&] { return ++asked > 10; });
      EXPECT_EQ(asked, rank.first() ? 11 : 0);  // not once more
      EXPECT_EQ(seconds.size(), rank.first() ? 1u : 0u);
    });
}

TEST(Bench, MemoryIsRead) { EXPECT_GT(read_rate(1 << 22, 2), 1e6); }

}  // namespace
}  // namespace trireme::test
