// The serving engine on a model that reads its text back from the pages: what is said may depend on
// the request alone. Numbers of rows are those of the list of pitfalls.
#include "recipes/serve/serve_engine.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <thread>

#include "tests/recipes/serve/stub_model.h"

namespace trireme::test {
namespace {

struct Answer {
  Ids ids;
  std::string text, stop, error;
  std::optional<FinishReason> finish;
  std::int64_t cached = 0, prompt = 0, output = 0;
  std::vector<ChosenToken> tokens;
  int lasts = 0;
};

// A request's answers by choice.
class Listener {
 public:
  EventSink sink() {
    return [this](GenerationEvent&& e) {
      Answer& a = answers[e.choice];
      EXPECT_FALSE(a.finish) << "an event after the end";
      for (ChosenToken& token : e.tokens) {
        a.ids.push_back(token.id);
        a.tokens.push_back(std::move(token));
      }
      a.text += e.text;
      a.finish = e.finish;
      a.stop = e.stop;
      a.error = e.error;
      a.cached = e.cached_tokens;
      a.prompt = e.prompt_tokens;
      a.output = e.output_tokens;
      ended = ended || e.last;
    };
  }
  std::map<int, Answer> answers;
  bool ended = false;
};

GenerationRequest greedy(Ids prompt, std::int64_t count) {
  return {.prompt = std::move(prompt), .sampling = {.temperature = 0}, .max_tokens = count};
}

class ServeEngineTest : public ::testing::Test {
 protected:
  void make(std::int64_t pages, ServeOptions options = {}, NextToken next = {}, int groups = 1,
            std::int64_t context = 4096) {
    if (!next) next = [](const Ids& text) { return mixed(text, kVocab); };
    model_ = std::make_unique<StubModel>(kVocab, pages, context, std::move(next), groups);
    engine_ = std::make_unique<ServeEngine>(*model_, *tokenizer_, options);
  }
  void run_until_idle() {
    while (engine_->step()) {
    }
  }
  void run_all() {
    run_until_idle();
    EXPECT_EQ(engine_->stats().free_pages, engine_->stats().pages);
    EXPECT_EQ(engine_->stats().running, 0);
    EXPECT_EQ(engine_->stats().waiting, 0);
  }
  Answer alone(GenerationRequest request) {
    Listener listener;
    engine_->submit(std::move(request), listener.sink());
    run_all();
    EXPECT_TRUE(listener.ended);
    return listener.answers[0];
  }
  std::string refused(GenerationRequest request,
                      RequestRefused::Kind kind = RequestRefused::Kind::kInvalid) {
    try {
      engine_->submit(std::move(request), [](GenerationEvent&&) {});
    } catch (const RequestRefused& error) {
      EXPECT_EQ(error.kind, kind);
      return error.what();
    }
    ADD_FAILURE() << "not refused";
    return {};
  }

  std::unique_ptr<Tokenizer> tokenizer_ = byte_tokenizer();
  std::unique_ptr<StubModel> model_;
  std::unique_ptr<ServeEngine> engine_;
};

TEST_F(ServeEngineTest, AnswersGoOnFromTheirPrompts) {
  make(64, {.budget = 8, .sequences = 4});
  const Answer a = alone(greedy(prompt_of(1, 37), 20));
  EXPECT_EQ(a.ids, continued(prompt_of(1, 37), 20));
  EXPECT_EQ(a.finish, FinishReason::kLength);
  EXPECT_EQ(a.prompt, 37);
  EXPECT_EQ(a.output, 20);
  for (const std::int64_t rows : model_->rows_of_passes) EXPECT_LE(rows, 8);
}

// Rows 9, 10, 31: alone, among others, in chunks, over shared prefixes, twice in one pass, computed
// again after others needed the room: the same.
TEST_F(ServeEngineTest, WhatIsSaidDependsOnTheRequestAlone) {
  for (const std::int64_t pages : {200, 24})
    for (const std::int64_t budget : {8, 64})
      for (const int groups : {1, 3}) {
        make(pages, {.budget = budget, .sequences = 8}, {}, groups);
        std::vector<Ids> prompts;
        for (std::size_t i = 0; i < 10; ++i) {
          Ids p = prompt_of(5, 40);  // a common beginning
          const Ids rest = prompt_of(i % 7, 1 + 9 * (i % 7));
          p.insert(p.end(), rest.begin(), rest.end());
          if (i == 9) p[3] ^= 1;  // one id changed in the first page
          prompts.push_back(std::move(p));
        }
        std::vector<std::unique_ptr<Listener>> heard;
        for (const Ids& p : prompts) {
          heard.push_back(std::make_unique<Listener>());
          engine_->submit(greedy(p, 60), heard.back()->sink());
          engine_->step();
        }
        run_all();
        for (std::size_t i = 0; i < prompts.size(); ++i)
          EXPECT_EQ(heard[i]->answers[0].ids, continued(prompts[i], 60)) << i;
        EXPECT_EQ(engine_->stats().preemptions > 0, pages == 24);
        EXPECT_GT(engine_->stats().prefix_hits, 0);
        EXPECT_EQ(alone(greedy({7}, 5)).ids, continued({7}, 5));  // one id after long ones
      }
}

// Row 31: 16 * floor((n - 1) / 16) tokens are found.
TEST_F(ServeEngineTest, FullPagesOfAPrefixAreFound) {
  make(64);
  for (const std::size_t n : {1u, 15u, 16u, 17u, 32u, 33u, 100u}) {
    EXPECT_EQ(alone(greedy(prompt_of(n, n), 1)).cached, 0);
    const Answer again = alone(greedy(prompt_of(n, n), 1));
    EXPECT_EQ(again.cached, static_cast<std::int64_t>(16 * ((n - 1) / 16)));
    EXPECT_EQ(again.ids, continued(prompt_of(n, n), 1));
  }
  GenerationRequest salted = greedy(prompt_of(100, 100), 1);
  salted.salt = 5;
  EXPECT_EQ(alone(salted).cached, 0);
  Ids changed = prompt_of(100, 100);
  changed[0] ^= 1;
  EXPECT_EQ(alone(greedy(changed, 1)).cached, 0);
  // Twice in the same pass: nobody reads pages that are not filled yet.
  Listener first, second;
  const Ids twice = prompt_of(7, 50);
  engine_->submit(greedy(twice, 20), first.sink());
  engine_->submit(greedy(twice, 20), second.sink());
  run_all();
  EXPECT_EQ(first.answers[0].ids, continued(twice, 20));
  EXPECT_EQ(second.answers[0].ids, continued(twice, 20));
}

// Row 12.
TEST_F(ServeEngineTest, ChoicesDifferAndRepeat) {
  make(64);
  std::vector<std::map<int, Answer>> runs;
  for (int run = 0; run < 2; ++run) {
    Listener heard;
    GenerationRequest r = greedy(prompt_of(3, 50), 12);
    r.sampling = {.temperature = 1.5, .seed = 1};
    r.choices = 4;
    engine_->submit(r, heard.sink());
    run_all();
    EXPECT_TRUE(heard.ended);
    runs.push_back(heard.answers);
  }
  std::set<Ids> all;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(runs[0][i].ids, runs[1][i].ids);
    EXPECT_EQ(runs[0][i].finish, FinishReason::kLength);
    all.insert(runs[0][i].ids);
    EXPECT_EQ(runs[0][i].cached, i > 0 ? 48 : 0);  // the prompt was computed once
  }
  EXPECT_GT(all.size(), 1u);
}

// Row 4.
TEST_F(ServeEngineTest, EachEndIdEnds) {
  make(8, {}, [](const Ids& text) { return text.size() == 1 ? 'a' : 7; });
  GenerationRequest r = greedy({'x'}, 10);
  r.ends = {5, 7};
  Answer a = alone(r);
  EXPECT_EQ(a.text, "a");
  EXPECT_EQ(a.finish, FinishReason::kStop);
  EXPECT_EQ(a.output, 1);
  r.min_tokens = 4;
  a = alone(r);
  EXPECT_EQ(a.output, 4);  // ends are masked until then
  EXPECT_EQ(a.finish, FinishReason::kStop);
}

TEST_F(ServeEngineTest, StopStringsEndTheText) {
  const std::string says = "one two three";
  make(8, {}, [&](const Ids& text) {
    return static_cast<std::int32_t>(says[(text.size() - 1) % says.size()]);
  });
  GenerationRequest r = greedy({'x'}, 30);
  r.stops = {"three", " tw"};
  const Answer a = alone(r);
  EXPECT_EQ(a.text, "one");
  EXPECT_EQ(a.stop, " tw");
  EXPECT_EQ(a.finish, FinishReason::kStop);
  r.min_tokens = 5;  // "one t": no part of a stop string
  EXPECT_EQ(alone(r).text, "one two ");
  r.min_tokens = 30;
  EXPECT_EQ(alone(r).text.size(), 30u);
}

// Row 20: NaN ends its request, others go on; its pages do no harm later.
TEST_F(ServeEngineTest, ARequestOfNoNumbersEndsAlone) {
  make(16, {},
       [](const Ids& text) { return text[0] == 66 && text.size() > 3 ? -1 : mixed(text, kVocab); });
  Listener bad, good;
  engine_->submit(greedy({66, 1, 2}, 10), bad.sink());
  engine_->submit(greedy({67, 1, 2}, 10), good.sink());
  run_all();
  EXPECT_EQ(bad.answers[0].finish, FinishReason::kError);
  EXPECT_NE(bad.answers[0].error.find("not finite"), std::string::npos);
  EXPECT_EQ(good.answers[0].ids, continued({67, 1, 2}, 10));
}

// Rows 15, 16, 19.
TEST_F(ServeEngineTest, WhatCanNeverBeAnsweredIsRefusedWithNumbers) {
  make(64, {}, {}, 1, 64);
  std::string told = refused(greedy(prompt_of(1, 65), 1));
  EXPECT_NE(told.find("64"), std::string::npos);
  EXPECT_NE(told.find("65"), std::string::npos);
  refused(greedy(prompt_of(1, 64), 1));
  refused(greedy(prompt_of(1, 4), std::int64_t{1} << 31));
  refused(greedy(prompt_of(1, 4), std::numeric_limits<std::int64_t>::max()));
  refused(greedy(prompt_of(1, 4), -1));
  refused(greedy({}, 4));
  refused(greedy({256}, 4));
  refused(greedy({-1}, 4));
  GenerationRequest r = greedy({1}, 4);
  r.choices = 129;
  refused(r);
  r = greedy({1}, 4);
  r.stops = {""};
  refused(r);
  r = greedy({1}, 4);
  r.min_tokens = 5;
  refused(r);
  r = greedy({1}, 4);
  r.sampling.top_p = 0;
  refused(r);
  EXPECT_EQ(alone(greedy({1}, 4)).output, 4);  // a short one works
  const Answer none = alone(greedy({1}, 0));
  EXPECT_EQ(none.text, "");
  EXPECT_EQ(none.finish, FinishReason::kLength);
  make(2, {}, {}, 1, 4096);
  told = refused(greedy(prompt_of(1, 30), 3));
  EXPECT_NE(told.find("33"), std::string::npos);
  EXPECT_NE(told.find("32"), std::string::npos);
}

// Row 17: closed while queued, in prefill and in decode.
TEST_F(ServeEngineTest, ACancelledRequestGivesItsPagesBackWithinAPass) {
  for (const int passes : {0, 1, 6}) {
    make(32, {.budget = 16, .sequences = 4});
    Listener gone, neighbour;
    engine_->submit(greedy(prompt_of(9, 20), 30), neighbour.sink());
    const std::uint64_t number = engine_->submit(greedy(prompt_of(8, 60), 30), gone.sink());
    for (int i = 0; i < passes; ++i) engine_->step();
    engine_->cancel(number);
    engine_->cancel(number);  // twice, and unknown ones
    engine_->cancel(12345);
    engine_->step();
    EXPECT_TRUE(gone.ended);
    EXPECT_EQ(gone.answers[0].finish, FinishReason::kCancelled);
    EXPECT_LE(engine_->stats().running, 1);
    run_all();
    EXPECT_EQ(neighbour.answers[0].ids, continued(prompt_of(9, 20), 30));
  }
}

// Row 41.
// R29: a request that pauses holds no pages and no place, says nothing, and goes on as if nothing
// had been; others run meanwhile.
TEST_F(ServeEngineTest, APausedRequestHoldsNothingAndGoesOn) {
  for (const int groups : {1, 3}) {
    make(40, {.budget = 64, .sequences = 2}, {}, groups);
    std::vector<std::unique_ptr<Listener>> paused(5);
    std::vector<std::uint64_t> numbers;
    for (std::size_t i = 0; i < paused.size(); ++i) {
      paused[i] = std::make_unique<Listener>();
      GenerationRequest r = greedy(prompt_of(i, 30 + 10 * i), 40);
      r.choices = i == 4 ? 2 : 1;
      r.echo_logprobs = i == 3;
      numbers.push_back(engine_->submit(std::move(r), paused[i]->sink()));
      for (int step = 0; step < 8; ++step) engine_->step();
      engine_->pause(numbers.back(), true);
      run_until_idle();
      EXPECT_FALSE(paused[i]->ended);
      EXPECT_EQ(engine_->stats().running, 0);
      EXPECT_EQ(engine_->stats().free_pages, engine_->stats().pages);
    }
    std::vector<std::size_t> said;
    for (const auto& listener : paused) said.push_back(listener->answers[0].ids.size());
    Listener other;
    engine_->submit(greedy(prompt_of(9, 50), 30), other.sink());
    run_until_idle();
    EXPECT_EQ(other.answers[0].ids, continued(prompt_of(9, 50), 30));
    for (std::size_t i = 0; i < paused.size(); ++i)
      EXPECT_EQ(paused[i]->answers[0].ids.size(), said[i]) << "it said more while it paused";
    EXPECT_EQ(engine_->stats().waiting, 6);
    EXPECT_EQ(engine_->stats().preemptions, 0);
    engine_->cancel(numbers[0]);
    for (std::size_t i = 1; i < numbers.size(); ++i) engine_->pause(numbers[i], false);
    run_all();
    EXPECT_EQ(paused[0]->answers[0].finish, FinishReason::kCancelled);
    for (std::size_t i = 1; i < paused.size(); ++i)
      for (int c = 0; c < (i == 4 ? 2 : 1); ++c) {
        Ids expected = continued(prompt_of(i, 30 + 10 * i), 40);
        if (i == 3) {
          const Ids prompt = prompt_of(i, 60);
          expected.insert(expected.begin(), prompt.begin(), prompt.end());
        }
        EXPECT_EQ(paused[i]->answers[c].ids, expected) << i << " choice " << c;
      }
  }
}

// The end waits for those that pause, unless it is forced.
TEST_F(ServeEngineTest, TheEndWaitsForWhoPauses) {
  make(40, {});
  std::atomic<bool> stop{false};
  Listener heard, forced;
  const std::uint64_t number = engine_->submit(greedy(prompt_of(1, 20), 10), heard.sink());
  engine_->pause(number, true);
  engine_->step();
  engine_->close();
  std::thread runs([&] { engine_->run(stop); });
  engine_->pause(number, false);
  runs.join();
  EXPECT_EQ(heard.answers[0].ids, continued(prompt_of(1, 20), 10));
  make(40, {});
  engine_->pause(engine_->submit(greedy(prompt_of(1, 20), 10), forced.sink()), true);
  stop = true;
  engine_->run(stop);
  EXPECT_EQ(forced.answers[0].finish, FinishReason::kCancelled);
}

TEST_F(ServeEngineTest, AFullQueueRefuses) {
  make(64, {.budget = 8, .sequences = 1, .queue = 2});
  std::vector<std::unique_ptr<Listener>> heard;
  int overloaded = 0;
  for (int i = 0; i < 10; ++i) {
    heard.push_back(std::make_unique<Listener>());
    try {
      engine_->submit(greedy(prompt_of(1, 5), 5), heard.back()->sink());
    } catch (const RequestRefused& error) {
      EXPECT_EQ(error.kind, RequestRefused::Kind::kOverloaded);
      ++overloaded;
      heard.pop_back();
    }
    if (i == 4) engine_->step();  // one runs now, one more may wait
  }
  EXPECT_EQ(overloaded, 7);
  run_all();
  for (const auto& listener : heard) EXPECT_EQ(listener->answers[0].output, 5);
  EXPECT_EQ(alone(greedy({1}, 1)).output, 1);
  engine_->close();
  refused(greedy({1}, 1), RequestRefused::Kind::kClosed);
}

TEST_F(ServeEngineTest, EchoScoresEveryTokenOfThePrompt) {
  make(64, {.budget = 32});
  const Ids prompt = prompt_of(2, 50);
  GenerationRequest r = greedy(prompt, 2);
  r.echo_logprobs = true;
  r.sampling.logprobs = 1;
  for (int run = 0; run < 2; ++run) {  // the second one could share the first's prefix
    const Answer a = alone(r);
    Ids expected = prompt;
    const Ids more = continued(prompt, 2);
    expected.insert(expected.end(), more.begin(), more.end());
    EXPECT_EQ(a.ids, expected);
    for (std::size_t i = 1; i < prompt.size(); ++i) {
      ASSERT_EQ(a.tokens[i].top.size(), 1u);
      const Ids before(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_EQ(a.tokens[i].top[0].id, mixed(before, kVocab));
    }
  }
  r.max_tokens = 0;
  EXPECT_EQ(alone(r).ids, prompt);
}

TEST_F(ServeEngineTest, RequestsComeFromOtherThreads) {
  make(64, {.budget = 32, .sequences = 4});
  std::vector<std::unique_ptr<Listener>> heard(40);
  for (auto& listener : heard) listener = std::make_unique<Listener>();
  std::atomic<bool> stop{false};
  std::thread engine([&] { engine_->run(stop); });
  std::vector<std::thread> clients;
  for (std::size_t t = 0; t < 4; ++t)
    clients.emplace_back([&, t] {
      for (std::size_t i = t; i < heard.size(); i += 4) {
        const std::uint64_t n = engine_->submit(greedy(prompt_of(i, 20 + i), 10), heard[i]->sink());
        if (i % 5 == 0) engine_->cancel(n);
      }
    });
  for (std::thread& client : clients) client.join();
  engine_->close();
  engine.join();
  for (std::size_t i = 0; i < heard.size(); ++i) {
    EXPECT_TRUE(heard[i]->ended);
    if (heard[i]->answers[0].finish == FinishReason::kLength)
      EXPECT_EQ(heard[i]->answers[0].ids, continued(prompt_of(i, 20 + i), 10));
    else
      EXPECT_EQ(i % 5, 0u);
  }
  EXPECT_EQ(engine_->stats().free_pages, 64);
}

// 10,000 random events: nobody starves, no page leaks, every answer is right.
TEST_F(ServeEngineTest, RandomEventsNeitherStarveNorLeak) {
  make(30, {.budget = 24, .sequences = 6});
  std::mt19937_64 random(11);
  struct Open {
    std::uint64_t number;
    Ids prompt;
    std::int64_t most;
    std::unique_ptr<Listener> heard;
    std::int64_t oldest_for = 0;
    bool paused = false, was_paused = false;
  };
  std::deque<Open> open;
  std::int64_t answered = 0, cancelled = 0;
  const auto settle = [&] {
    std::erase_if(open, [&](const Open& o) {
      if (!o.heard->ended) return false;
      const Answer& a = o.heard->answers[0];
      const Ids expected = continued(o.prompt, o.most);
      if (a.finish == FinishReason::kLength) {
        EXPECT_EQ(a.ids, expected);
        ++answered;
      } else {
        EXPECT_EQ(a.finish, FinishReason::kCancelled);
        EXPECT_TRUE(std::equal(a.ids.begin(), a.ids.end(), expected.begin()));
        ++cancelled;
      }
      return true;
    });
    if (open.empty()) return;
    Open& first = open.front();  // always goes on: a pass a token, and chunks
    if (std::exchange(first.paused, false)) engine_->pause(first.number, false);
    // Whoever paused waits for those that run.
    const std::int64_t bound = (first.was_paused ? 6 : 1) * (60 + 150 + 8);
    EXPECT_LE(++first.oldest_for, bound);
  };
  for (int event = 0; event < 10000; ++event) {
    const std::uint64_t kind = random() % 10;
    if (kind < 3 && open.size() < 40) {
      Ids prompt = prompt_of(random() % 5, 1 + random() % 150);
      const auto most = static_cast<std::int64_t>(1 + random() % 60);
      auto heard = std::make_unique<Listener>();
      const std::uint64_t number = engine_->submit(greedy(prompt, most), heard->sink());
      open.push_back({number, std::move(prompt), most, std::move(heard)});
    } else if (kind == 3 && !open.empty()) {
      engine_->cancel(open[random() % open.size()].number);
    } else if (kind == 4 && open.size() > 1) {  // not the oldest, whose wait has a bound
      Open& o = open[1 + random() % (open.size() - 1)];
      o.paused = !o.paused;
      o.was_paused = true;
      engine_->pause(o.number, o.paused);
    } else {
      engine_->step();
      settle();
    }
  }
  for (const Open& o : open) engine_->pause(o.number, false);
  run_all();
  settle();
  EXPECT_TRUE(open.empty());
  EXPECT_GT(answered, 100);
  EXPECT_GT(cancelled, 100);
  EXPECT_GT(engine_->stats().preemptions, 0);
  EXPECT_GT(engine_->stats().prefix_hits, 0);
}

}  // namespace
}  // namespace trireme::test
