// What a served model's numbers may depend on, and what becomes of those that no format holds:
// rows 10 and 20 of the list of pitfalls, by a real tiny model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "recipes/serve/serve_engine.h"
#include "tests/parity/train_layout.h"

namespace trireme::test {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int64_t kCount = 12;

ModelOptions model() {
  ModelOptions o = parity::tiny_qwen(1);
  o.sequence = 64;
  return o;
}

Ids prompt_of(std::int32_t number) {
  Ids ids;
  for (std::int32_t t = 0; t < 9 + 5 * number; ++t) ids.push_back((t * t + number * t + 3) % 13);
  return ids;
}

struct Told {
  std::vector<ChosenToken> tokens;
  std::optional<FinishReason> finish;
  std::string error;
};

// Answers to `prompts`, of which one more joins before every second pass.
std::vector<Told> served(const parity::Task& task, const parity::Logical* weights,
                         const std::vector<Ids>& prompts, ServeOptions options,
                         std::int64_t pages) {
  std::vector<Told> all(prompts.size());
  const auto tokenizer = byte_tokenizer();
  parity::run_layout(task, {}, [&](parity::Rank& rank) {
    if (weights) rank.engine.kept().load_values(parity::source_of(*weights));
    const auto runner = lead_passes({rank.engine, rank.mesh, rank.backend}, pages, 64);
    ServeEngine engine(*runner, *tokenizer, options);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      engine.submit({.prompt = prompts[i],
                     .sampling = {.temperature = 0, .logprobs = 5},
                     .max_tokens = kCount},
                    [&told = all[i]](GenerationEvent&& e) {
                      for (ChosenToken& t : e.tokens) told.tokens.push_back(std::move(t));
                      if (e.finish) told.finish = e.finish;
                      told.error += e.error;
                    });
      if (i % 2 == 1) engine.step();
      if (i % 4 == 3) engine.step();
    }
    while (engine.step()) {
    }
  });
  return all;
}

void expect_same(const Told& got, const Told& alone, const std::string& what) {
  ASSERT_EQ(got.tokens.size(), alone.tokens.size()) << what;
  for (std::size_t i = 0; i < got.tokens.size(); ++i) {
    EXPECT_EQ(got.tokens[i].id, alone.tokens[i].id) << what << ", token " << i;
    ASSERT_EQ(got.tokens[i].top.size(), 5u);
    for (std::size_t k = 0; k < 5; ++k) {
      EXPECT_EQ(got.tokens[i].top[k].id, alone.tokens[i].top[k].id) << what << ", token " << i;
      EXPECT_NEAR(got.tokens[i].top[k].logprob, alone.tokens[i].top[k].logprob, 1e-5) << what;
    }
  }
}

// Row 10: alone, and among seven others that join at different passes; in chunks, with little room.
// Row 9: a prompt of one id comes last, where others' keys and values lie already.
TEST(ServedValues, AreThoseOfTheRequestAlone) {
  std::vector<Ids> prompts;
  for (std::int32_t i = 0; i < 8; ++i) prompts.push_back(prompt_of(i));
  prompts.push_back({5});
  for (const bool cpu : {false, true}) {
    parity::Task task{.model = model(), .compute = DType::kF32};
    if (cpu) {
      try {
        make_cpu_backend(std::make_shared<MemoryLedger>(), 1);
      } catch (const Error&) {
        continue;  // none in this build
      }
      task.backend = [](std::shared_ptr<MemoryLedger> ledger) {
        return make_cpu_backend(std::move(ledger), 2);
      };
    }
    std::vector<Told> alone;
    for (const Ids& prompt : prompts)
      alone.push_back(served(task, nullptr, {prompt}, {}, 40).front());
    for (const std::int64_t budget : {64, 11})
      for (const std::int64_t pages : {40, 7}) {
        const std::vector<Told> among =
            served(task, nullptr, prompts, {.budget = budget, .sequences = 8}, pages);
        for (std::size_t i = 0; i < prompts.size(); ++i)
          expect_same(among[i], alone[i],
                      join(cpu ? "cpu" : "reference", ", prompt ", i, ", budget ", budget, ", ",
                           pages, " pages"));
      }
  }
}

// Row 20: weights that all of f16 holds, and what they make of it not (above 65504).
TEST(ServedValues, BeyondF16AreNumbersInBf16AndAnErrorInF16) {
  parity::Task task{.model = model(), .compute = DType::kF32};
  parity::LogicalTensors start;
  parity::run_layout(task, {}, [&](parity::Rank& rank) { start.add_weights(rank); });
  parity::Logical large = start.tensors();
  double largest = 0;
  for (auto& [name, values] : large) {
    const bool down = name.find(".mlp.down.weight") != std::string::npos;
    const bool up = name.find(".mlp.up.weight") != std::string::npos ||
                    name.find(".mlp.gate.weight") != std::string::npos;
    for (double& v : values) {
      v *= down ? 2e5 : up ? 200 : 1;
      largest = std::max(largest, std::abs(v));
    }
  }
  ASSERT_LT(largest, 65504);
  const std::vector<Ids> prompts{prompt_of(2), prompt_of(0)};
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    task.compute = compute;
    for (const Told& told : served(task, &large, prompts, {}, 40)) {
      EXPECT_EQ(told.finish, FinishReason::kLength) << name_of(compute) << ": " << told.error;
      EXPECT_EQ(std::ssize(told.tokens), kCount);
      for (const ChosenToken& t : told.tokens) EXPECT_TRUE(std::isfinite(t.logprob));
    }
  }
  task.compute = DType::kF16;
  for (const Told& told : served(task, &large, prompts, {}, 40)) {
    EXPECT_EQ(told.finish, FinishReason::kError);
    EXPECT_NE(told.error.find("not finite"), std::string::npos) << told.error;
    EXPECT_TRUE(told.tokens.empty());  // no token 0 in their place
  }
}

}  // namespace
}  // namespace trireme::test
