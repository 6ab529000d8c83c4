// Serving over replicas and stages, on a model of tokens: who runs where and when, and that nothing
// of it is heard in the answers. Stages have a simulated cost.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "recipes/serve/serve_engine.h"
#include "tests/recipes/serve/stub_model.h"

namespace trireme::test {
namespace {

NextToken next_token() {
  return [](const Ids& text) { return mixed(text, kVocab); };
}

struct Heard {
  Ids ids;
  std::int64_t cached = 0;
  std::optional<FinishReason> finish;
};

class ParallelServing : public ::testing::Test {
 protected:
  void make(int stages, int replicas, std::int64_t pages = 200, const ServeOptions& options = {}) {
    model_ = std::make_unique<StubModel>(kVocab, pages, 4096, next_token(), stages, replicas);
    engine_ = std::make_unique<ServeEngine>(*model_, *tokenizer_, options);
  }
  std::uint64_t ask(Ids prompt, std::int64_t count, std::int64_t salt = 0) {
    heard_.emplace_back(std::make_unique<Heard>());
    prompts_.push_back(prompt);
    counts_.push_back(count);
    return engine_->submit({.prompt = std::move(prompt),
                            .sampling = {.temperature = 0},
                            .max_tokens = count,
                            .salt = salt},
                           [h = heard_.back().get()](GenerationEvent&& e) {
                             for (const ChosenToken& t : e.tokens) h->ids.push_back(t.id);
                             h->cached = e.cached_tokens;
                             h->finish = e.finish;
                           });
  }
  void run_all() {
    while (engine_->step()) {
    }
    EXPECT_EQ(engine_->stats().free_pages, engine_->stats().pages);
    for (std::size_t i = 0; i < heard_.size(); ++i) {
      if (heard_[i]->finish == FinishReason::kCancelled) continue;
      EXPECT_EQ(heard_[i]->ids, continued(prompts_[i], counts_[i])) << "request " << i;
      EXPECT_EQ(heard_[i]->finish, FinishReason::kLength);
    }
  }
  const std::unique_ptr<Tokenizer> tokenizer_ = byte_tokenizer();
  std::unique_ptr<StubModel> model_;
  std::unique_ptr<ServeEngine> engine_;
  std::vector<std::unique_ptr<Heard>> heard_;
  std::vector<Ids> prompts_;
  std::vector<std::int64_t> counts_;
};

TEST_F(ParallelServing, ReplicasShareTheRequestsEvenly) {
  make(1, 3);
  for (std::uint64_t i = 0; i < 9; ++i) ask(prompt_of(i, 10), 12);
  engine_->step();
  engine_->step();
  EXPECT_EQ(model_->rows_of_replicas.back(), (std::vector<std::int64_t>{3, 3, 3}));
  run_all();
  EXPECT_EQ(engine_->stats().pages, 600);
}

TEST_F(ParallelServing, AReplicaHasItsOwnPlacesAndPages) {
  make(1, 2, 4, {.budget = 64, .sequences = 1});
  for (std::uint64_t i = 0; i < 5; ++i) ask(prompt_of(i, 40), 20);
  engine_->step();
  EXPECT_EQ(engine_->stats().running, 2);
  EXPECT_EQ(engine_->stats().waiting, 3);
  run_all();
}

TEST_F(ParallelServing, ARequestGoesWhereItsPrefixIs) {
  make(1, 2);
  const Ids shared = prompt_of(7, 64);
  ask(prompt_of(1, 30), 3);  // to the first replica
  ask(shared, 3);            // to the other
  run_all();
  for (int i = 0; i < 3; ++i) {
    ask(shared, 3);
    run_all();
    EXPECT_EQ(heard_.back()->cached, 48);
    EXPECT_EQ(model_->rows_of_replicas.back()[0], 0);
  }
  ask(shared, 3, 1);  // another salt: where less is to be done, and nothing is found
  run_all();
  EXPECT_EQ(heard_.back()->cached, 0);
  EXPECT_EQ(model_->rows_of_replicas.back()[1], 0);
}

TEST_F(ParallelServing, APrefixDoesNotDrawEverybodyToOneReplica) {
  make(1, 2);
  const Ids shared = prompt_of(7, 17);  // one page of it is shared
  for (int i = 0; i < 8; ++i) ask(shared, 30);
  for (int i = 0; i < 6; ++i) engine_->step();
  EXPECT_EQ(model_->rows_of_replicas.back(), (std::vector<std::int64_t>{4, 4}));
  run_all();
}

// A burst in the first pass would leave the others empty for ever.
TEST_F(ParallelServing, SequencesSpreadOverThePassesInFlight) {
  for (const int stages : {2, 3, 4}) {
    make(stages, 1);
    for (std::uint64_t i = 0; i < 12; ++i) ask(prompt_of(i, 3), 20);
    for (int i = 0; i < 4 * stages; ++i) engine_->step();
    for (int i = 0; i < stages; ++i)
      EXPECT_EQ(*(model_->rows_of_passes.end() - 1 - i), 12 / stages) << stages << " stages";
    run_all();
  }
}

TEST_F(ParallelServing, PassesAreEvenAgainWhenSomeHaveEnded) {
  make(2, 1);
  for (std::uint64_t i = 0; i < 8; ++i) ask(prompt_of(i, 3), i % 2 == 0 ? 6 : 30);
  for (int i = 0; i < 30; ++i) engine_->step();
  EXPECT_EQ(engine_->stats().running, 4);
  EXPECT_EQ(*(model_->rows_of_passes.end() - 1), 2);
  EXPECT_EQ(*(model_->rows_of_passes.end() - 2), 2);
  run_all();
}

// Chunks of a prompt follow each other without waiting, about as long as what else is in flight.
TEST_F(ParallelServing, APromptIsSpreadOverThePassesInFlight) {
  make(3, 1);
  ask(prompt_of(1, 300), 4);
  for (int i = 0; i < 3; ++i) engine_->step();
  EXPECT_EQ(model_->rows_of_passes, (std::vector<std::int64_t>{100, 100, 100}));
  run_all();
  make(2, 1);
  for (std::uint64_t i = 0; i < 4; ++i) ask(prompt_of(i, 2), 40);
  for (int i = 0; i < 6; ++i) engine_->step();
  ask(prompt_of(9, 200), 4);
  const std::size_t before = model_->rows_of_passes.size();
  for (int i = 0; i < 2; ++i) engine_->step();
  const std::vector<std::int64_t> both(
      model_->rows_of_passes.begin() + static_cast<std::ptrdiff_t>(before),
      model_->rows_of_passes.end());
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0] + both[1], 204);
  EXPECT_LE(std::abs(both[0] - both[1]), 2);
  run_all();
}

TEST_F(ParallelServing, LongPromptsTakeWholeBudgets) {
  make(2, 1, 200, {.budget = 64, .sequences = 8});
  ask(prompt_of(1, 640), 2);
  for (int i = 0; i < 6; ++i) engine_->step();
  for (const std::int64_t rows : model_->rows_of_passes) EXPECT_EQ(rows, 64);
  run_all();
}

// Whoever is driven out, cancelled or ended while it has rows in flight.
TEST_F(ParallelServing, RandomEventsAreNotHeard) {
  std::int64_t preemptions = 0, cancelled = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    const int stages = 1 + static_cast<int>(random() % 4),
              replicas = 1 + static_cast<int>(random() % 3);
    heard_.clear();
    prompts_.clear();
    counts_.clear();
    make(stages, replicas, 5 + static_cast<std::int64_t>(random() % 8),
         {.budget = 6 + static_cast<std::int64_t>(random() % 40), .sequences = 6});
    std::vector<std::uint64_t> asked;
    for (int event = 0; event < 120; ++event) {
      if (random() % 4 == 0)
        asked.push_back(ask(prompt_of(random() % 5, 1 + random() % 40),
                            1 + static_cast<std::int64_t>(random() % 30),
                            static_cast<std::int64_t>(random() % 2)));
      if (!asked.empty() && random() % 9 == 0) engine_->cancel(asked[random() % asked.size()]);
      engine_->step();
    }
    run_all();
    preemptions += engine_->stats().preemptions;
    for (const auto& h : heard_) cancelled += h->finish == FinishReason::kCancelled;
  }
  EXPECT_GT(preemptions, 100);
  EXPECT_GT(cancelled, 100);
}

TEST_F(ParallelServing, APromptThatIsComputedAgainIsScoredOnce) {
  for (const int stages : {1, 3}) {
    make(stages, 1, 6, {.budget = 16, .sequences = 4});
    std::vector<ChosenToken> scored;
    const Ids prompt = prompt_of(3, 40);
    ask(prompt_of(1, 20), 60);
    for (int i = 0; i < 3; ++i) engine_->step();
    engine_->submit({.prompt = prompt,
                     .sampling = {.temperature = 0, .logprobs = 1},
                     .max_tokens = 30,
                     .echo_logprobs = true},
                    [&](GenerationEvent&& e) {
                      scored.insert(scored.end(), e.tokens.begin(), e.tokens.end());
                    });
    run_all();
    ASSERT_EQ(scored.size(), 70u);
    for (std::size_t i = 0; i < prompt.size(); ++i) EXPECT_EQ(scored[i].id, prompt[i]);
    EXPECT_GT(engine_->stats().preemptions, 0);
    heard_.clear();
    prompts_.clear();
    counts_.clear();
  }
}

// Passes through p stages, each of which takes one unit of time for any pass; the leader is the
// first one and waits for the last.
class TimedStages final : public ModelRunner {
 public:
  explicit TimedStages(int stages)
      : stub_(kVocab, 400, 4096, next_token(), stages), free_(static_cast<std::size_t>(stages)) {}
  std::int64_t vocab() const override { return stub_.vocab(); }
  std::int64_t pages() const override { return stub_.pages(); }
  std::int64_t context() const override { return stub_.context(); }
  int stages() const override { return stub_.stages(); }
  void start(std::span<const InferenceRows> passes) override {
    stub_.start(passes);
    double at = now_;
    for (double& free : free_) at = free = std::max(at, free) + 1;
    ends_.push_back(at);
    now_ = free_[0];
  }
  std::span<PassAnswer> finish() override {
    now_ = std::max(now_, ends_[finished_++]);
    times.push_back(now_);
    return stub_.finish();
  }
  std::vector<double> times;  // of answers

 private:
  StubModel stub_;
  std::vector<double> free_, ends_;
  std::size_t finished_ = 0;
  double now_ = 0;
};

TEST(StagesOfSimulatedCost, AnswersOfGroupsComeAtTheRateOfThePipeline) {
  constexpr int kStages = 4, kTokens = 50;
  const auto tokenizer = byte_tokenizer();
  for (const int groups : {1, 2, 3, 4, 8}) {
    TimedStages model(kStages);
    ServeEngine engine(model, *tokenizer, {});
    for (int g = 0; g < groups; ++g)
      engine.submit({.prompt = prompt_of(static_cast<std::uint64_t>(g), 20),
                     .sampling = {.temperature = 0},
                     .max_tokens = kTokens},
                    [](GenerationEvent&&) {});
    while (engine.step()) {
    }
    const auto n = std::ssize(model.times);
    // Steady passes per unit of time, over whole rounds.
    const double rate = kStages * 5 / (model.times[10 + kStages * 5] - model.times[10]);
    EXPECT_NEAR(rate, std::min(groups, kStages) / static_cast<double>(kStages), 0.05) << groups;
    if (groups < kStages) continue;
    const double total = model.times.back();
    EXPECT_LE(1 - static_cast<double>(n) / total,
              (kStages - 1) / static_cast<double>(n + kStages - 1) + 1e-12);
  }
}

}  // namespace
}  // namespace trireme::test
