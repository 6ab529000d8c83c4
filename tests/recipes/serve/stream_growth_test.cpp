// Passes of streamed weights are worth waiting for: as many answers at a time as the cache has room
// for, and a pass begins when as many are there as can run.
#include "recipes/serve/stream_growth.h"

#include <gtest/gtest.h>

#include <thread>

#include "recipes/serve/stream_bench.h"
#include "tests/recipes/serve/stub_model.h"

namespace trireme::test {
namespace {

WeightStreamShape shape_of(std::int64_t elements, bool resident) {
  return {.parts = {{elements, {0, elements}, resident}, {elements, {0, elements}, true}},
          .dtype = DType::kBF16};
}

TEST(StreamGrowth, RaisesWhatNobodyHasChosen) {
  const ServeOptions plain;
  const WeightStreamShape streamed = shape_of(4'000'000'000, false);
  const ServeOptions grown = grown_for(streamed, 100 * 16, {}, plain);
  EXPECT_EQ(grown.sequences, 100);
  EXPECT_EQ(grown.budget, 612);
  EXPECT_DOUBLE_EQ(grown.grow_seconds, 0.4);
  EXPECT_EQ(grown_for(streamed, 5, {}, plain).sequences, plain.sequences);
  EXPECT_EQ(grown_for(streamed, 1 << 20, {}, plain).sequences, 1024);
  const ServeOptions chosen = grown_for(streamed, 1 << 20, {.sequences = true}, plain);
  EXPECT_EQ(chosen.sequences, plain.sequences);
  EXPECT_EQ(chosen.budget, plain.sequences + 512);
  const ServeOptions small = grown_for(streamed, 1 << 20, {.budget = true}, plain);
  EXPECT_EQ(small.sequences, plain.budget);
  EXPECT_EQ(small.budget, plain.budget);
  // Nothing is streamed: nothing changes.
  const ServeOptions same = grown_for(shape_of(4'000'000'000, true), 1 << 20, {}, plain);
  EXPECT_EQ(same.sequences, plain.sequences);
  EXPECT_EQ(same.grow_seconds, 0);
}

TEST(StreamGrowth, OverlapIsOneWhenTheShorterIsHidden) {
  const auto overlap = [](double busy, double stalled, double passing) {
    return overlap_of({.stalled = stalled, .busy = busy, .passing = passing});
  };
  EXPECT_DOUBLE_EQ(overlap(4, 0, 5), 1);    // computing takes longer
  EXPECT_DOUBLE_EQ(overlap(10, 7, 10), 1);  // the stream does
  EXPECT_DOUBLE_EQ(overlap(4, 4, 9), 0);    // they took turns
  EXPECT_DOUBLE_EQ(overlap(4, 2, 6), 0.5);
  EXPECT_DOUBLE_EQ(overlap(0, 0, 0), 0);
  const StreamFigures figures{.fetch = 4};
  EXPECT_DOUBLE_EQ(figures.overlap({.compute = 2, .both = 4}), 1);
  EXPECT_DOUBLE_EQ(figures.overlap({.compute = 2, .both = 6}), 0);
  EXPECT_DOUBLE_EQ(figures.overlap({.compute = 8, .both = 9}), 0.75);
}

// It would wait for days if it waited for a time, and begin with fewer if it did not wait.
TEST(StreamGrowth, APassWaitsForAsManyAsCanRun) {
  StubModel model(256, 64, 128, [](const Ids& text) { return mixed(text, 256); });
  const auto tokenizer = byte_tokenizer();
  ServeEngine engine(model, *tokenizer, {.budget = 64, .sequences = 4, .grow_seconds = 1e6});
  std::atomic<bool> stop{false};
  std::atomic<int> ends{0};
  const auto submit = [&](std::int32_t first) {
    engine.submit({.prompt = {first, 2, 3}, .sampling = {.temperature = 0}, .max_tokens = 5},
                  [&](GenerationEvent&& e) {
                    if (e.last && ++ends == 4) engine.close();
                  });
  };
  std::thread thread([&] { engine.run(stop); });
  for (std::int32_t i = 0; i < 4; ++i) submit(i);
  thread.join();
  EXPECT_EQ(ends, 4);
  EXPECT_EQ(model.rows_of_passes, (std::vector<std::int64_t>{12, 4, 4, 4, 4}));
}

}  // namespace
}  // namespace trireme::test
