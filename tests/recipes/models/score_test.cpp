// Scores of single samples against the logits of each prefix and against the mean of evaluate(),
// under layouts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"
#include "tests/recipes/models/expectations.h"

namespace trireme::parity {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int64_t kTokens = 4;  // of the model's 8

// Samples of `tokens` ids; the labels of sample s begin to count at s % 3.
SampleSource samples_of(const ModelOptions& model, std::int64_t tokens) {
  return [=](std::int64_t first, std::int64_t count, Ids& ids, Ids& labels) {
    ids.clear();
    labels.clear();
    for (std::int64_t s = first; s < first + count; ++s)
      for (std::int64_t t = 0; t < tokens; ++t) {
        const auto at = [&](std::int64_t i) {
          return static_cast<std::int32_t>((s * 7 + i * i * 5 + 3 * i) % model.vocab);
        };
        ids.push_back(at(t));
        labels.push_back(t < s % 3 ? -1 : at(t + 1));
      }
  };
}

// From whole logits.
std::vector<SampleScore> brute_force(Engine& engine, std::int64_t samples,
                                     const SampleSource& source) {
  std::vector<SampleScore> scores(static_cast<std::size_t>(samples));
  for (std::int64_t s = 0; s < samples; ++s) {
    Ids ids, labels;
    source(s, 1, ids, labels);
    SampleScore& score = scores[static_cast<std::size_t>(s)];
    for (std::size_t t = 0; t < ids.size(); ++t) {
      if (labels[t] < 0) continue;
      const std::vector<double> logits =
          engine.next_logits({ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(t) + 1});
      const double largest = *std::max_element(logits.begin(), logits.end());
      double sum = 0;
      for (const double x : logits) sum += std::exp(x - largest);
      const double own = logits[static_cast<std::size_t>(labels[t])] - largest;
      score.loss += std::log(sum) - own;
      score.likeliest = score.likeliest && own == 0;
    }
  }
  return scores;
}

// The label of the last row becomes the likeliest token, for samples that are even.
SampleSource with_likeliest(const SampleSource& source, const Ids& best) {
  return [=](std::int64_t first, std::int64_t count, Ids& ids, Ids& labels) {
    source(first, count, ids, labels);
    const std::size_t tokens = ids.size() / static_cast<std::size_t>(count);
    for (std::int64_t s = first; s < first + count; ++s) {
      const std::size_t row = static_cast<std::size_t>(s - first) * tokens;
      if (s % 2 != 0) continue;
      std::fill_n(labels.begin() + static_cast<std::ptrdiff_t>(row), tokens, -1);
      labels[row + tokens - 1] = best[static_cast<std::size_t>(s)];
    }
  };
}

TEST(Score, IsThatOfTheLogitsUnderEveryLayout) {
  for (const ModelOptions& model : {tiny_gpt2(), tiny_llama(2)}) {
    constexpr std::int64_t kSamples = 7;
    const Task task{.model = model};
    const SampleSource plain = samples_of(model, kTokens);
    SampleSource source;
    std::vector<SampleScore> expected;
    run_layout(task, {}, [&](Rank& rank) {
      Ids best;
      for (std::int64_t s = 0; s < kSamples; ++s) {
        Ids ids, labels;
        plain(s, 1, ids, labels);
        const std::vector<double> logits = rank.engine.next_logits(ids);
        best.push_back(static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) -
                                                 logits.begin()));
      }
      source = with_likeliest(plain, best);
      expected = brute_force(rank.engine, kSamples, source);
    });
    std::vector<Layout> layouts = some_layouts(model);
    layouts.push_back({.mesh = {.data = 3}, .micro = 2});
    for (const Layout& layout : layouts) {
      SCOPED_TRACE(text_of(layout));
      run_layout(task, layout, [&](Rank& rank) {
        const std::vector<SampleScore> scores = rank.engine.score(kSamples, kTokens, source);
        ASSERT_EQ(scores.size(), expected.size());
        for (std::size_t i = 0; i < scores.size(); ++i) {
          EXPECT_NEAR(scores[i].loss, expected[i].loss, 1e-10) << i;
          EXPECT_EQ(scores[i].likeliest, expected[i].likeliest) << i;
          EXPECT_EQ(scores[i].likeliest, i % 2 == 0) << i;
        }
        EXPECT_TRUE(rank.engine.score(0, kTokens, source).empty());
      });
    }
  }
}

TEST(Score, SumsToTheMeanOfAnEvaluation) {
  const Task task{.model = tiny_llama(1)};
  run_layout(task, {.mesh = {.data = 2, .pipeline = 2}}, [&](Rank& rank) {
    const SampleSource source = samples_of(task.model, task.model.sequence);
    double sum = 0;
    for (const SampleScore& score : rank.engine.score(6, task.model.sequence, source))
      sum += score.loss;
    EXPECT_NEAR(sum / (6 * 8 - 2 * (0 + 1 + 2)), rank.engine.evaluate(6, source), 1e-12);
  });
}

TEST(Score, RefusesWhatTheModelCannotSee) {
  run_layout({.model = tiny_gpt2()}, {}, [&](Rank& rank) {
    EXPECT_THROW(rank.engine.score(1, 9, samples_of(tiny_gpt2(), 9)), Error);
  });
  Layout rows{.mesh = {.tensor = 4}, .sequence_parallel = true};
  run_layout({.model = tiny_gpt2()}, rows, [&](Rank& rank) {
    EXPECT_THROW(rank.engine.score(1, 6, samples_of(tiny_gpt2(), 6)), Error);
  });
  run_layout({.model = tiny_mlp()}, {}, [&](Rank& rank) {
    EXPECT_THROW(rank.engine.score(1, 8, samples_of(tiny_mlp(), 8)), Error);
  });
}

}  // namespace
}  // namespace trireme::parity
