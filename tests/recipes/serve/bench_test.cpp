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
  parity::run_layout(task, {.mesh = {.pipeline = 2, .tensor = 2}}, [&](parity::Rank& rank) {
    const RankParts parts{rank.engine, rank.mesh, rank.backend};
    for (const BenchTest& t : {BenchTest{.prompt = 20}, BenchTest{.generate = 4, .batch = 3},
                               BenchTest{.generate = 2, .batch = 2, .depth = 17}}) {
      const std::vector<double> seconds = bench(parts, t, 2);
      ASSERT_EQ(seconds.size(), 2u);
      EXPECT_GT(seconds[0], 0);
    }
  });
}

TEST(Bench, MemoryIsRead) { EXPECT_GT(read_rate(1 << 22, 2), 1e6); }

}  // namespace
}  // namespace trireme::test
