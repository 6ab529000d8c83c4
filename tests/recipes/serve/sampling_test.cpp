#include "recipes/serve/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "framework/base/error.h"
#include "recipes/serve/token_weights.h"

namespace trireme::test {
namespace {

const std::vector<float> kLogits{2, 1, 0, -1};
constexpr double kP[] = {.6439, .2369, .0871, .0321};

// Shares of the tokens in many draws.
std::map<std::int32_t, double> shares(const Sampling& s, const std::vector<float>& logits = kLogits,
                                      std::vector<std::int32_t> prompt = {}) {
  constexpr int kDraws = 20000;
  std::map<std::int32_t, double> counts;
  for (int i = 0; i < kDraws; ++i) {
    Sampling mine = s;
    mine.seed = static_cast<std::uint64_t>(i);
    counts[choose_token(logits, mine, {.prompt = prompt}).id] += 1.0 / kDraws;
  }
  return counts;
}
std::set<std::int32_t> kept(const Sampling& s) {
  std::set<std::int32_t> ids;
  for (const auto& [id, share] : shares(s)) ids.insert(id);
  return ids;
}

TEST(Sampling, DrawsAsTheSoftmaxSays) {
  const auto got = shares({});
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(got.at(i), kP[i], 0.012);
}

TEST(Sampling, TheVectorsOfTheTable) {
  EXPECT_EQ(kept({.top_p = 0.7}), (std::set<std::int32_t>{0, 1}));
  EXPECT_EQ(kept({.top_p = 0.64}), (std::set<std::int32_t>{0}));
  EXPECT_EQ(kept({.min_p = 0.2}), (std::set<std::int32_t>{0, 1}));
  EXPECT_EQ(kept({.top_k = 3}), (std::set<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(kept({.top_k = 3, .top_p = 0.7}), (std::set<std::int32_t>{0, 1}));
  // Penalty 2 with history {0, 3} makes [1, 1, 0, -2] of [2, 1, 0, -1].
  const auto got = shares({.repetition_penalty = 2}, kLogits, {0, 3, 3});
  const double sum = 2 * std::exp(1) + 1 + std::exp(-2);
  EXPECT_NEAR(got.at(0), std::exp(1) / sum, 0.012);
  EXPECT_NEAR(got.at(1), std::exp(1) / sum, 0.012);
  EXPECT_NEAR(got.at(3), std::exp(-2) / sum, 0.006);
}

TEST(Sampling, GreedyAtItsEdges) {
  const std::vector<float> tied{1, 3, 3, 2};
  for (const Sampling& s : {Sampling{.temperature = 0}, Sampling{.temperature = 1e-9},
                            Sampling{.temperature = 0, .seed = 99}})
    EXPECT_EQ(choose_token(tied, s, {}).id, 1);
  EXPECT_EQ(choose_token(kLogits, {.top_p = 1e-9}, {}).id, 0);
  EXPECT_EQ(kept({.top_k = 1'000'000'000}).size(), 4u);
  EXPECT_EQ(kept({.top_k = -1}).size(), 4u);
}

TEST(Sampling, BiasPenaltiesAndMask) {
  const Sampling greedy{.temperature = 0};
  Sampling biased = greedy;
  biased.bias = {{3, 100}, {1, -100}};
  EXPECT_EQ(choose_token(kLogits, biased, {}).id, 3);
  Sampling present = greedy;
  present.presence_penalty = 1.5;
  const std::vector<std::int32_t> output{0, 0};
  EXPECT_EQ(choose_token(kLogits, present, {.output = output}).id, 1);
  EXPECT_EQ(choose_token(kLogits, present, {.prompt = output}).id, 0);  // output only
  Sampling frequent = greedy;
  frequent.frequency_penalty = 0.6;
  EXPECT_EQ(choose_token(kLogits, frequent, {.output = output}).id, 1);  // 2 - 2 x 0.6 < 1
  const std::vector<std::int32_t> masked{0, 1};
  EXPECT_EQ(choose_token(kLogits, greedy, {.masked = masked}).id, 2);
}

TEST(Sampling, WeightsAreExponentials) {
  std::vector<float> x{0, -std::numeric_limits<float>::infinity(), -1e30f, -699, -701, -1e-30f};
  for (int i = 0; i < 5000; ++i) x.push_back(-0.0137f * static_cast<float>(i));
  for (const double temperature : {0.1, 0.7, 1.0, 30.0}) {
    std::vector<double> got(x.size());
    token_weights(x, 0, temperature, got.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double y = static_cast<double>(x[i]) * (1 / temperature);
      const double want = y > -700 ? std::exp(y) : 0;
      EXPECT_NEAR(got[i], want, want * 4.5e-16) << y;
    }
  }
}

// What is kept, by the definition: all sorted, then cut.
std::set<std::int32_t> kept_by_sorting(const std::vector<float>& x, const Sampling& s) {
  std::vector<std::pair<double, std::int32_t>> all;
  const double largest = *std::max_element(x.begin(), x.end());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double weight = std::exp((x[i] - largest) / s.temperature);
    if (weight >= s.min_p) all.emplace_back(-weight, static_cast<std::int32_t>(i));
  }
  std::sort(all.begin(), all.end());
  if (s.top_k > 0) all.resize(std::min(all.size(), static_cast<std::size_t>(s.top_k)));
  double total = 0, sum = 0;
  for (const auto& [weight, id] : all) total -= weight;
  std::set<std::int32_t> ids;
  for (const auto& [weight, id] : all) {
    if (sum >= s.top_p * total) break;
    sum -= weight;
    ids.insert(id);
  }
  return ids;
}

TEST(Sampling, DrawsFromALargeVocabularyAreTheDefinitions) {
  const RngKey key = key_from_seed(5);
  std::vector<float> x(3000);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(6 * random_uniform(key, i) - 3);
  for (Sampling s : {Sampling{}, Sampling{.top_p = 0.9}, Sampling{.temperature = 0.3, .top_p = 0.5},
                     Sampling{.temperature = 2, .min_p = 0.3}, Sampling{.top_p = 0.999999},
                     Sampling{.top_k = 40, .top_p = 0.8}, Sampling{.top_p = 0.3, .min_p = 0.9}}) {
    const std::set<std::int32_t> kept = kept_by_sorting(x, s);
    double total = 0;
    const double largest = *std::max_element(x.begin(), x.end());
    std::map<std::int32_t, double> up_to;  // of the ids in ascending order, as draws go
    for (const std::int32_t id : kept)
      up_to[id] = total += std::exp((x[static_cast<std::size_t>(id)] - largest) / s.temperature);
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      s.seed = seed;
      const double at = total * random_uniform(sampling_key(seed, 0), 0);
      const std::int32_t got = choose_token(x, s, {}).id;
      ASSERT_TRUE(kept.contains(got)) << got << " of " << kept.size();
      EXPECT_LE(at, up_to[got] + 1e-9 * total) << got;
      EXPECT_GE(at, up_to[got] -
                        std::exp((x[static_cast<std::size_t>(got)] - largest) / s.temperature) -
                        1e-9 * total)
          << got;
    }
  }
}

TEST(Sampling, ADrawIsAFunctionOfSeedChoiceAndPosition) {
  std::vector<float> flat(1000, 0.0f);
  const auto draw = [&](std::uint64_t seed, std::uint64_t choice, std::size_t position) {
    const std::vector<std::int32_t> output(position, 5);
    return choose_token(flat, {.seed = seed}, {.output = output, .choice = choice}).id;
  };
  EXPECT_EQ(draw(1, 0, 0), draw(1, 0, 0));
  EXPECT_NE(draw(1, 0, 0), draw(1, 1, 0));
  EXPECT_NE(draw(1, 0, 0), draw(1, 0, 1));
  EXPECT_NE(draw(1, 0, 0), draw(2, 0, 0));
}

TEST(Sampling, LogprobsAreTheModelsOwn) {
  const ChosenToken told =
      choose_token(kLogits, {.temperature = 0.1, .top_k = 1, .bias = {{2, 50}}, .logprobs = 2}, {});
  EXPECT_EQ(told.id, 2);
  EXPECT_NEAR(told.logprob, std::log(kP[2]), 1e-3);
  ASSERT_EQ(told.top.size(), 2u);
  EXPECT_EQ(told.top[0].id, 0);
  EXPECT_NEAR(told.top[1].logprob, std::log(kP[1]), 1e-3);
}

TEST(Sampling, LogitsThatAreNoNumbersAreAnError) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  for (std::size_t size : {4u, 200u})
    for (const float bad : {nan, infinity})
      for (std::size_t at = 0; at < size; at += size / 4) {
        std::vector<float> logits(size, 1.0f);
        logits[at] = bad;
        EXPECT_THROW(choose_token(logits, {.temperature = 0}, {}), Error);
        EXPECT_THROW(choose_token(logits, {.bias = {{0, 1}}}, {}), Error);
      }
  const std::vector<float> none(70, -infinity);
  EXPECT_THROW(choose_token(none, {}, {}), Error);
}

// A row's likeliest ids, from parts as tensor ranks have them.
TopLogits top_of(const std::vector<float>& logits, std::int64_t count, std::int64_t parts) {
  const auto columns = static_cast<std::int64_t>(logits.size()) / parts;
  TopRows top{.count = count, .valid = columns, .sums = true};
  std::vector<std::vector<std::int32_t>> words;
  for (std::int64_t part = 0; part < parts; ++part) {
    top.first_column = part * columns;
    words.emplace_back(static_cast<std::size_t>(top.words()));
    top_of_row(top,
               std::span(logits).subspan(static_cast<std::size_t>(top.first_column),
                                         static_cast<std::size_t>(columns)),
               words.back());
  }
  const std::vector<std::span<const std::int32_t>> all(words.begin(), words.end());
  return merged_top(top, all);
}

TEST(Sampling, TheLikeliestIdsAreEnoughWhereItIsSaidSo) {
  const std::vector<std::int32_t> ends = {3, 7, 11};
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::vector<float> logits(240);
    for (std::size_t i = 0; i < logits.size(); ++i)  // with equal ones
      logits[i] = std::round(6 * static_cast<float>(random_normal(key_from_seed(seed), i))) / 2;
    for (const double temperature : {0.0, 0.3, 1.0, 50.0})
      for (const std::int64_t top_k : {1, 5, 40, 61, 64})
        for (const double top_p : {0.4, 1.0})
          for (const bool masks : {false, true}) {
            const Sampling s{.temperature = temperature,
                             .top_k = top_k,
                             .top_p = top_p,
                             .min_p = seed % 3 == 0 ? 0.05 : 0.0,
                             .seed = seed,
                             .logprobs = seed % 2 == 0 ? 5 : -1};
            const SamplingContext context{.masked = masks ? std::span<const std::int32_t>(ends)
                                                          : std::span<const std::int32_t>(),
                                          .choice = seed % 2};
            const std::int64_t enough = enough_top(s, context.masked.size());
            EXPECT_EQ(enough == 0, temperature > 0 && top_k + (masks ? 3 : 0) > 64);
            if (enough == 0) continue;
            const ChosenToken whole = choose_token(logits, s, context);
            for (const std::int64_t parts : {1, 2, 3}) {
              const ChosenToken some = choose_token(top_of(logits, enough, parts), s, context);
              ASSERT_EQ(some.id, whole.id) << "seed " << seed << ", top_k " << top_k;
              EXPECT_NEAR(some.logprob, whole.logprob, parts == 1 ? 0 : 1e-6);
              ASSERT_EQ(some.top.size(), whole.top.size());
              for (std::size_t i = 0; i < some.top.size(); ++i)
                EXPECT_EQ(some.top[i].id, whole.top[i].id);
              ++compared;
            }
          }
  }
  EXPECT_GT(compared, 10000);
}

TEST(Sampling, TheLikeliestIdsAreNotEnoughForAllElse) {
  EXPECT_EQ(enough_top({.temperature = 0}, 0), 1);
  EXPECT_EQ(enough_top({.temperature = 0, .logprobs = 20}, 2), 20);
  EXPECT_EQ(enough_top({.temperature = 0}, 63), 64);
  EXPECT_EQ(enough_top({.temperature = 0}, 64), 0);
  EXPECT_EQ(enough_top({.top_k = 64}, 0), 64);
  for (const Sampling& all :
       {Sampling{}, Sampling{.top_k = 65}, Sampling{.top_k = -1, .top_p = 0.5},
        Sampling{.top_k = std::numeric_limits<std::int64_t>::max()},
        Sampling{.temperature = 0, .repetition_penalty = 1.1},
        Sampling{.temperature = 0, .presence_penalty = 0.1},
        Sampling{.temperature = 0, .frequency_penalty = -0.1},
        Sampling{.temperature = 0, .bias = {{1, 5}}}})
    EXPECT_EQ(enough_top(all, 0), 0);
}

TEST(Sampling, FieldsOutsideTheirRangeAreNamed) {
  const auto refused = [](const Sampling& s, const std::string& field) {
    try {
      check_sampling(s, 10);
      ADD_FAILURE() << field;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(field), std::string::npos) << error.what();
    }
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  check_sampling({}, 10);
  refused({.temperature = -1}, "temperature");
  refused({.temperature = nan}, "temperature");
  refused({.top_k = -2}, "top_k");
  refused({.top_p = 0}, "top_p");
  refused({.top_p = 1.1}, "top_p");
  refused({.top_p = nan}, "top_p");
  refused({.min_p = -0.1}, "min_p");
  refused({.repetition_penalty = 0}, "repetition_penalty");
  refused({.presence_penalty = 2.1}, "presence_penalty");
  refused({.frequency_penalty = -2.1}, "frequency_penalty");
  refused({.bias = {{10, 1}}}, "logit_bias");
  refused({.bias = {{-1, 1}}}, "logit_bias");
  refused({.bias = {{1, 101}}}, "logit_bias");
  refused({.logprobs = 21}, "logprobs");
}

}  // namespace
}  // namespace trireme::test
