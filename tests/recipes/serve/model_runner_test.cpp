// A real tiny model behind the engine: the same greedy tokens as the training forward pass gives,
// over one rank, tensor ranks, stages and sharded weights; with little room, too.
#include "recipes/serve/model_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>

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
std::vector<Ids> expected(const ModelOptions& m, double& margin) {
  std::vector<Ids> all;
  margin = 1;
  parity::Task task{.model = m, .compute = DType::kF32};
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

struct Serving {
  std::vector<Ids> answers;
  Traffic traffic;  // of the leader
  std::int64_t preemptions = 0, passes = 0;
};

// Half of the requests join later, and one that nobody waits for leaves on the way.
Serving served(const ModelOptions& m, const parity::Layout& layout, std::int64_t pages,
               std::int64_t budget, const Sampling& sampling = {.temperature = 0}) {
  const bool streams = layout.offload.slots > 0;
  parity::Task task{.model = m, .compute = DType::kF32, .forward_only = streams};
  task.backend = make_guarded_backend;
  Serving all{.answers = std::vector<Ids>(prompts().size())};
  const auto tokenizer = byte_tokenizer();
  parity::run_layout(task, layout, [&](parity::Rank& rank) {
    const RankParts parts{rank.engine, rank.mesh, rank.backend};
    const std::int64_t bytes = KvCache::page_bytes(rank.engine.cache_options(1));
    EXPECT_LE(pages_within(parts, pages * bytes), pages);
    if (!rank.first()) return follow_passes(parts, pages);
    const auto runner = lead_passes(parts, pages, 64);
    EXPECT_EQ(runner->replicas(), layout.mesh.data);
    EXPECT_EQ(runner->stages(), streams ? 1 : layout.mesh.pipeline);
    rank.mesh.world().reset_traffic();
    ServeEngine engine(*runner, *tokenizer, {.budget = budget, .sequences = 4});
    const auto ask = [&](std::size_t i) {
      engine.submit({.prompt = prompts()[i], .sampling = sampling, .max_tokens = kCount},
                    [&all, i](GenerationEvent&& e) {
                      for (const ChosenToken& t : e.tokens) all.answers[i].push_back(t.id);
                    });
    };
    for (std::size_t i = 0; i < 3; ++i) ask(i);
    const std::uint64_t leaves =
        engine.submit({.prompt = prompts()[4], .sampling = sampling, .max_tokens = kCount},
                      [](GenerationEvent&&) {});
    for (std::size_t i = 3; i < all.answers.size(); ++i) {
      for (int step = 0; step < 3; ++step) engine.step();
      ask(i);
    }
    engine.cancel(leaves);
    while (engine.step()) {
    }
    EXPECT_EQ(engine.stats().streamed.bytes > 0, streams);
    all.preemptions = engine.stats().preemptions;
    all.passes = engine.stats().passes;
    EXPECT_EQ(engine.stats().free_pages, pages * layout.mesh.data);
    all.traffic = rank.mesh.world().traffic();
  });
  return all;
}

TEST(ModelRunner, TheSameGreedyTokensUnderEveryLayout) {
  double margin = 0;
  const std::vector<Ids> right = expected(model(), margin);
  EXPECT_GT(margin, 1e-5);
  EXPECT_EQ(served(model(), {}, 40, 64).answers, right);
  EXPECT_EQ(served(model(), {}, 40, 5).answers, right);
  const Serving tight = served(model(), {}, 7, 16);
  EXPECT_EQ(tight.answers, right);
  EXPECT_GT(tight.preemptions, 0);
  using parity::Layout;
  for (const Layout& layout :
       {Layout{.mesh = {.tensor = 2}}, Layout{.mesh = {.tensor = 4}},
        Layout{.mesh = {.pipeline = 2}}, Layout{.mesh = {.pipeline = 3}},
        Layout{.mesh = {.data = 2}}, Layout{.mesh = {.data = 2, .pipeline = 2}},
        Layout{.mesh = {.pipeline = 2, .tensor = 2}}, Layout{.mesh = {.data = 2, .tensor = 2}},
        Layout{.mesh = {.data = 2}, .zero_stage = 3},
        Layout{.mesh = {.data = 2, .pipeline = 2}, .zero_stage = 3},
        Layout{.mesh = {.data = 2, .tensor = 2}, .zero_stage = 3},
        Layout{.zero_stage = 3, .offload = {.parameters = Tier::kHost}}})
    for (const std::int64_t pages : {40, 7})
      EXPECT_EQ(served(model(), layout, pages, 24).answers, right)
          << text_of(layout) << ", " << pages << " pages";
}

// Weights that pass through slots; keys and values on the host beside them.
TEST(ModelRunner, TheSameGreedyTokensOfStreamedWeights) {
  double margin = 0;
  const std::vector<Ids> right = expected(model(), margin);
  using parity::Layout;
  for (const MeshShape& mesh : {MeshShape{}, MeshShape{.tensor = 2}, MeshShape{.pipeline = 2},
                                MeshShape{.data = 2}, MeshShape{.data = 2, .pipeline = 2}})
    for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
      const Layout layout{.mesh = mesh,
                          .zero_stage = 3,
                          .offload = {.parameters = tier, .kv_cache = Tier::kHost, .slots = 2}};
      EXPECT_EQ(served(model(), layout, 40, 24).answers, right) << text_of(layout);
    }
}

// 9 query heads share 3 key/value heads, as SmolLM2-135M's do.
TEST(ModelRunner, ThreeTensorRanksOfNineHeads) {
  ModelOptions m = parity::tiny_llama(3);
  m.heads = 9;
  m.head_dim = 2;
  m.hidden = 18;
  m.sequence = 64;
  double margin = 0;
  const std::vector<Ids> right = expected(m, margin);
  EXPECT_GT(margin, 1e-5);
  EXPECT_EQ(served(m, {.mesh = {.tensor = 3}}, 40, 24).answers, right);
  try {
    served(m, {.mesh = {.tensor = 2}}, 40, 24);
    ADD_FAILURE() << "2 tensor ranks shared 9 heads";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("use 1, 3"), std::string::npos) << error.what();
  }
}

// What is drawn, too, and it does not matter whether whole rows of logits were gathered.
TEST(ModelRunner, TheSameDrawsUnderEveryLayout) {
  for (const Sampling& s : {Sampling{.temperature = 0.8, .top_k = 5, .seed = 3},
                            Sampling{.temperature = 0.8, .top_p = 0.9, .seed = 3},
                            Sampling{.temperature = 0.8, .frequency_penalty = 0.5, .seed = 3}}) {
    const std::vector<Ids> right = served(model(), {}, 40, 24, s).answers;
    for (const parity::Layout& layout :
         {parity::Layout{.mesh = {.tensor = 2}}, parity::Layout{.mesh = {.pipeline = 2}},
          parity::Layout{.mesh = {.data = 2}}})
      EXPECT_EQ(served(model(), layout, 40, 24, s).answers, right) << text_of(layout);
  }
}

// What the trainer's own forward pass says after its steps, and what is served of these weights.
TEST(ModelRunner, ATrainedModelIsServedWithTheTrainersLogits) {
  parity::Task task{.model = model(), .compute = DType::kF32};
  const Ids text = prompts()[4];
  std::vector<double> trained;
  parity::LogicalTensors weights;
  parity::run_layout(task, {}, [&](parity::Rank& rank) {
    for (std::int64_t step = 0; step < 3; ++step) rank.engine.train(step, parity::samples_of(task));
    trained = rank.engine.next_logits(text);
    weights.add_weights(rank);
  });
  const std::vector<double> fresh = [&] {
    std::vector<double> logits;
    parity::run_layout(task, {}, [&](auto& rank) { logits = rank.engine.next_logits(text); });
    return logits;
  }();
  const double largest =
      std::abs(*std::max_element(trained.begin(), trained.end(),
                                 [](double a, double b) { return std::abs(a) < std::abs(b); }));
  ASSERT_GT(std::abs(trained[0] - fresh[0]), 1e-3) << "training changed nothing";
  task.forward_only = true;
  for (const parity::Layout& layout :
       {parity::Layout{}, parity::Layout{.mesh = {.pipeline = 2, .tensor = 2}},
        parity::Layout{.mesh = {.data = 2}, .zero_stage = 3}})
    parity::run_layout(task, layout, [&](parity::Rank& rank) {
      rank.engine.kept().load_values(parity::source_of(weights.tensors()));
      const RankParts parts{rank.engine, rank.mesh, rank.backend};
      if (!rank.first()) return follow_passes(parts, 8);
      const auto runner = lead_passes(parts, 8, 64);
      const std::vector<std::int32_t> pages{5, 2, 7};
      const auto rows = std::ssize(text);
      std::vector<InferenceRows> passes(static_cast<std::size_t>(runner->replicas()));
      passes.back() = {.ids = text, .sequences = {{0, rows, 0, pages}}, .logit_rows = {rows - 1}};
      runner->start(passes);
      const Logits& served = runner->finish().back().logits;
      ASSERT_EQ(served.size(), trained.size());
      for (std::size_t i = 0; i < served.size(); ++i)
        EXPECT_NEAR(served[i], trained[i], 1e-5 * largest) << text_of(layout);
    });
}

std::int64_t gathered(const Serving& s) {
  const auto it = s.traffic.find("tensor/all_gather");
  return it == s.traffic.end() ? 0 : it->second.bytes;
}

// A record of a row has k ids, k logits and a sum of 2 words; the vocabulary of 13 is padded to 14.
TEST(ModelRunner, TensorRanksGatherRecordsInsteadOfTheVocabulary) {
  const parity::Layout two{.mesh = {.tensor = 2}};
  parity::Task task{.model = model(), .compute = DType::kF32};
  const auto tokenizer = byte_tokenizer();
  constexpr std::int64_t kTokens = 6;
  const std::pair<Sampling, std::int64_t> cases[] = {
      {{.temperature = 0}, 4 * (2 * 1 + 2)},
      {{.temperature = 0.7, .top_k = 3}, 4 * (2 * 3 + 2)},
      {{.temperature = 0, .logprobs = 2}, 4 * (2 * 2 + 2)},
      {{.temperature = 0.7}, 4 * 7},
      {{.temperature = 0, .presence_penalty = 0.1}, 4 * 7}};
  for (const auto& [sampling, bytes] : cases) {
    Serving s;
    parity::run_layout(task, two, [&](parity::Rank& rank) {
      const RankParts parts{rank.engine, rank.mesh, rank.backend};
      if (!rank.first()) return follow_passes(parts, 8);
      const auto runner = lead_passes(parts, 8, 64);
      ServeEngine engine(*runner, *tokenizer, {});
      rank.mesh.world().reset_traffic();
      engine.submit({.prompt = {1, 2, 3}, .sampling = sampling, .max_tokens = kTokens},
                    [](GenerationEvent&&) {});
      while (engine.step()) {
      }
      s.traffic = rank.mesh.world().traffic();
    });
    EXPECT_EQ(gathered(s), kTokens * bytes);
    EXPECT_EQ(s.traffic.count("tensor/all_reduce"), 0u);
    // Two sums a block and one of the embedding, of 3 rows of the prompt and one of each token but
    // the last.
    const TrafficEntry& sums = s.traffic.at("tensor/quick_all_reduce");
    EXPECT_EQ(sums.calls, kTokens * (2 * model().layers + 1));
    EXPECT_EQ(sums.bytes, (3 + kTokens - 1) * (2 * model().layers + 1) * model().hidden * 4);
  }
}

// Streams of 3 and of 9 tokens on two replicas whose weights are gathered by both.
TEST(ModelRunner, AReplicaThatIsDoneGoesOnWithEmptyPasses) {
  for (const int stages : {1, 2}) {
    parity::Task task{.model = model(), .compute = DType::kF32};
    const auto tokenizer = byte_tokenizer();
    std::vector<Ids> answers(2);
    parity::run_layout(task, {.mesh = {.data = 2, .pipeline = stages}, .zero_stage = 3},
                       [&](parity::Rank& rank) {
                         const RankParts parts{rank.engine, rank.mesh, rank.backend};
                         if (!rank.first()) return follow_passes(parts, 8);
                         const auto runner = lead_passes(parts, 8, 64);
                         ServeEngine engine(*runner, *tokenizer, {});
                         for (std::size_t i = 0; i < 2; ++i)
                           engine.submit({.prompt = prompts()[i],
                                          .sampling = {.temperature = 0},
                                          .max_tokens = i == 0 ? 3 : 9},
                                         [&, i](GenerationEvent&& e) {
                                           for (const ChosenToken& t : e.tokens)
                                             answers[i].push_back(t.id);
                                         });
                         while (engine.step()) {
                         }
                       });
    double margin = 0;
    const std::vector<Ids> right = expected(model(), margin);
    EXPECT_EQ(answers[0], Ids(right[0].begin(), right[0].begin() + 3));
    EXPECT_EQ(answers[1], Ids(right[1].begin(), right[1].begin() + 9));
  }
}

// Idle for five times the deadline of the ranks' waits, on a clock that the leader moves.
TEST(ModelRunner, RanksThatHearFromTheLeaderWaitWithoutEnd) {
  for (const bool speaks : {true, false}) {
    std::atomic<double> clock{0};
    std::atomic<bool> gone{false};  // a rank that waited too long
    parity::Task task{.model = model(), .compute = DType::kF32};
    task.communicator = {.timeout_seconds = 1, .clock = [&] { return clock.load(); }};
    const auto run = [&] {
      parity::run_layout(
          task, {.mesh = {.data = 2, .pipeline = 2, .tensor = 2}}, [&](parity::Rank& rank) {
            const RankParts parts{rank.engine, rank.mesh, rank.backend};
            if (!rank.first()) try {
                return follow_passes(parts, 8);
              } catch (...) {
                gone = true;
                throw;
              }
            const auto runner = lead_passes(parts, 8, 64);
            // A word goes over three ranks at most, each of which may hold the next one: the clock
            // of the last of them may go on by four words, less than the timeout, between two.
            for (int i = 0; i < 24 || !(speaks || gone); ++i) {
              clock = clock + 0.2;
              if (speaks) runner->idle();
            }
            std::vector<InferenceRows> passes(2);
            const std::vector<std::int32_t> page{3};
            passes[1] = {.ids = {5}, .sequences = {{0, 1, 0, page}}, .logit_rows = {0}};
            runner->start(passes);
            EXPECT_EQ(runner->finish()[1].logits.size(), 13u);
          });
    };
    if (speaks)
      run();
    else
      EXPECT_THROW(run(), Error);
  }
}

}  // namespace
}  // namespace trireme::test
