// R16 with a real model: the k-th request for memory fails while two requests are answered, for
// every k, by weights that stay and by weights that pass through slots. One of the two may end with
// an error; the other one has its tokens, no page is lost, and the next request is answered as
// ever.
#include <gtest/gtest.h>

#include "recipes/serve/serve_engine.h"
#include "tests/faults_memory/allocations.h"
#include "tests/parity/train_layout.h"
#include "tests/support/fault_count.h"

namespace trireme::test {
namespace {

using Ids = std::vector<std::int32_t>;

ModelOptions model() {
  ModelOptions o = parity::tiny_llama(1);
  o.layers = 1;
  o.sequence = 64;
  return o;
}

struct Answer {
  Ids ids;
  std::optional<FinishReason> finish;
  bool no_memory = false;
};

struct Talk {
  std::vector<Answer> answers;
  std::string ended;  // what ended the engine
};

// Two requests, one of which has a prompt that comes in two chunks. k = 0: nothing fails.
Talk talk(ServeEngine& engine, Scarce memory, std::int64_t k, MemoryCount& count) {
  Talk t{.answers = std::vector<Answer>(2)};
  for (std::size_t i = 0; i < 2; ++i) {
    Ids prompt;
    for (std::int32_t at = 0; at < (i == 0 ? 20 : 3); ++at) prompt.push_back((at * at + 1) % 13);
    engine.submit({.prompt = prompt, .sampling = {.temperature = 0}, .max_tokens = 3},
                  [&a = t.answers[i]](GenerationEvent&& e) {
                    const Spared spared;
                    for (const ChosenToken& token : e.tokens) a.ids.push_back(token.id);
                    if (e.finish) a.finish = e.finish;
                    a.no_memory = a.no_memory || e.no_memory;
                  });
  }
  begin_failing({.memory = memory, .at = k});
  try {
    while (engine.step()) {
    }
  } catch (const std::exception& error) {
    const Spared spared;
    t.ended = reason_of(error);
  }
  count = end_failing();
  return t;
}

bool right(const Answer& a, const Answer& quiet) {
  return a.finish == FinishReason::kLength && a.ids == quiet.ids;
}

// Ended for want of memory, and nothing wrong was said before.
bool refused(const Answer& a, const Answer& quiet) {
  return a.finish == FinishReason::kError && a.no_memory && a.ids.size() <= quiet.ids.size() &&
         std::equal(a.ids.begin(), a.ids.end(), quiet.ids.begin());
}

void expect_survival(const char* name, const parity::Layout& layout, FaultCount& faults) {
  parity::Task task{.model = model(), .compute = DType::kF32, .forward_only = true};
  const auto tokenizer = byte_tokenizer();
  parity::run_layout(task, layout, [&](parity::Rank& rank) {
    const auto runner = lead_passes({rank.engine, rank.mesh, rank.backend}, 12, 64);
    ServeEngine engine(*runner, *tokenizer, {.budget = 16, .sequences = 4});
    for (const Scarce memory : {Scarce::kObjects, Scarce::kBlocks}) {
      MemoryCount quiet_count;
      for (int i = 0; i < 2; ++i) talk(engine, memory, 0, quiet_count);  // what is made once
      const Talk quiet = talk(engine, memory, 0, quiet_count);
      ASSERT_EQ(quiet.answers[0].ids.size(), 3u);
      ASSERT_GT(quiet_count.requests, memory == Scarce::kObjects ? 100 : 20);
      std::int64_t harmed = 0;
      for (std::int64_t k = 1; k <= quiet_count.requests; ++k) {
        MemoryCount count;
        const Talk t = talk(engine, memory, k, count);
        ASSERT_EQ(t.ended, "") << name << ", request " << k << " of " << quiet_count.requests;
        bool whole = engine.stats().free_pages == engine.stats().pages;
        int lost = 0;
        for (std::size_t i = 0; i < 2; ++i) {
          if (right(t.answers[i], quiet.answers[i])) continue;
          ++lost;
          whole = whole && refused(t.answers[i], quiet.answers[i]);
        }
        whole = whole && lost <= 1;
        if (lost > 0) {
          MemoryCount none;
          const Talk next = talk(engine, memory, 0, none);
          for (std::size_t i = 0; i < 2; ++i)
            whole = whole && right(next.answers[i], quiet.answers[i]);
          ++harmed;
        }
        ++faults.runs;
        faults.injected += count.failed;
        faults.lost += !whole;
        ASSERT_TRUE(whole) << name << ", request " << k << " of " << quiet_count.requests;
      }
      EXPECT_GT(harmed, 0) << name;
      std::printf("[ memory   ] %s, %s: %lld requests for memory, %lld harmed an answer\n", name,
                  memory == Scarce::kObjects ? "objects" : "blocks",
                  static_cast<long long>(quiet_count.requests), static_cast<long long>(harmed));
    }
  });
}

TEST(ModelMemory, EndsOneAnswerAtMost) {
  FaultCount faults{.row = "R16", .what = "memory of a real model that is served"};
  expect_survival("weights that stay", {}, faults);
  expect_survival("weights in slots",
                  {.zero_stage = 3, .offload = {.parameters = Tier::kHost, .slots = 2}}, faults);
  expect_survival("weights in slots, keys and values on the host",
                  {.zero_stage = 3,
                   .offload = {.parameters = Tier::kHost, .kv_cache = Tier::kHost, .slots = 3}},
                  faults);
  tell(faults);
}

}  // namespace
}  // namespace trireme::test
