// A real tiny model behind the engine: the same greedy tokens as the training forward pass gives,
// over one rank, tensor ranks, stages and sharded weights; with little room, too.
#include "recipes/serve/model_runner.h"

#include <gtest/gtest.h>

#include "recipes/serve/serve_engine.h"
#include "tests/parity/train_layout.h"
#include "tests/support/guarded_backend.h"

namespace trireme::test {
namespace {

using Ids = std::vector<std::int32_t>;

ModelOptions model() {
  ModelOptions o = parity::tiny_qwen(1);
  o.sequence = 64;
  return o;
}

std::vector<Ids> prompts() {
  std::vector<Ids> all;
  for (std::int32_t i = 0; i < 6; ++i) {
    Ids ids;
    for (std::int32_t t = 0; t < 5 + 6 * i; ++t) ids.push_back((t * t + (t < 20 ? 0 : i)) % 13);
    all.push_back(ids);
  }
  return all;
}

constexpr std::int64_t kCount = 20;

// By the whole prefix for each token. The margin tells that no rounding decides.
std::vector<Ids> expected(double& margin) {
  std::vector<Ids> all;
  margin = 1;
  parity::Task task{.model = model(), .compute = DType::kF32};
  parity::run_layout(task, {}, [&](parity::Rank& rank) {
    for (Ids text : prompts()) {
      const auto begin = std::ssize(text);
      for (std::int64_t i = 0; i < kCount; ++i) {
        std::vector<double> logits = rank.engine.next_logits(text);
        const auto best = std::max_element(logits.begin(), logits.end());
        const double largest = *best;
        text.push_back(static_cast<std::int32_t>(best - logits.begin()));
        *best = -1e9;
        margin = std::min(margin, largest - *std::max_element(logits.begin(), logits.end()));
      }
      all.push_back({text.begin() + begin, text.end()});
    }
  });
  return all;
}

std::vector<Ids> served(const parity::Layout& layout, std::int64_t pages, std::int64_t budget) {
  parity::Task task{.model = model(), .compute = DType::kF32};
  task.backend = make_guarded_backend;
  std::vector<Ids> answers(prompts().size());
  const auto tokenizer = byte_tokenizer();
  parity::run_layout(task, layout, [&](parity::Rank& rank) {
    const RankParts parts{rank.engine, rank.mesh, rank.backend};
    const std::int64_t bytes = KvCache::page_bytes(rank.engine.cache_options(1));
    EXPECT_LE(pages_within(parts, pages * bytes), pages);
    if (!rank.first()) return follow_passes(parts, pages);
    const auto runner = lead_passes(parts, pages, 64);
    ServeEngine engine(*runner, *tokenizer, {.budget = budget, .sequences = 4});
    for (std::size_t i = 0; i < answers.size(); ++i)
      engine.submit({.prompt = prompts()[i], .sampling = {.temperature = 0}, .max_tokens = kCount},
                    [&answers, i](GenerationEvent&& e) {
                      for (const ChosenToken& t : e.tokens) answers[i].push_back(t.id);
                    });
    while (engine.step()) {
    }
    EXPECT_EQ(engine.stats().preemptions > 0, pages < 16);
  });
  return answers;
}

TEST(ModelRunner, TheSameGreedyTokensUnderEveryLayout) {
  double margin = 0;
  const std::vector<Ids> right = expected(margin);
  EXPECT_GT(margin, 1e-5);
  EXPECT_EQ(served({}, 40, 64), right);
  EXPECT_EQ(served({}, 40, 5), right);
  EXPECT_EQ(served({}, 7, 16), right);
  for (const parity::Layout& layout :
       {parity::Layout{.mesh = {.tensor = 2}}, parity::Layout{.mesh = {.pipeline = 2}},
        parity::Layout{.mesh = {.pipeline = 2, .tensor = 2}},
        parity::Layout{.mesh = {.data = 2}, .zero_stage = 3},
        parity::Layout{.zero_stage = 3, .offload = {.parameters = Tier::kHost}}})
    EXPECT_EQ(served(layout, 40, 24), right) << text_of(layout);
}

}  // namespace
}  // namespace trireme::test
