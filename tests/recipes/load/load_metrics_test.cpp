// Numbers of a load against values worked out by hand, and the names that scripts read.
#include "recipes/load/load_metrics.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"

namespace trireme::test {
namespace {

TEST(Percentiles, AreLinearBetweenRanks) {
  const std::vector<double> five{5, 1, 4, 2, 3};
  EXPECT_DOUBLE_EQ(percentile_of(five, 0), 1);
  EXPECT_DOUBLE_EQ(percentile_of(five, 50), 3);
  EXPECT_DOUBLE_EQ(percentile_of(five, 99), 4.96);  // between the 4th and the 5th of rank 3.96
  EXPECT_DOUBLE_EQ(percentile_of(five, 100), 5);
  EXPECT_DOUBLE_EQ(percentile_of({1, 2, 3, 10}, 50), 2.5);
  EXPECT_DOUBLE_EQ(percentile_of({7}, 99), 7);
  EXPECT_DOUBLE_EQ(percentile_of({}, 99), 0);
}

TEST(Distributions, AreInMilliseconds) {
  const Distribution d = distribution_of({0.1, 0.2, 0.3, 0.4});
  EXPECT_DOUBLE_EQ(d.mean, 250);
  EXPECT_DOUBLE_EQ(d.median, 250);
  EXPECT_NEAR(d.deviation, 111.80339887498948, 1e-9);  // sqrt(12500): divided by n
  EXPECT_NEAR(d.p99, 397, 1e-9);
}

// Three answers and a failure, in 4 seconds.
std::vector<LoadOutcome> series() {
  return {{.success = true,
           .start = 10,
           .ttft = 0.2,
           .latency = 1.0,
           .itl = {0.3, 0.5},
           .input_tokens = 8,
           .output_tokens = 3},
          {.success = true,
           .start = 10.5,
           .ttft = 0.4,
           .latency = 2.4,
           .itl = {1, 1},
           .input_tokens = 8,
           .output_tokens = 5},
          {.success = true,
           .start = 12,
           .ttft = 0.1,
           .latency = 0.1,
           .input_tokens = 8,
           .output_tokens = 1},
          {.success = false, .start = 12, .input_tokens = 8, .error = "no answer"}};
}

TEST(LoadMetrics, OfASeries) {
  const LoadMetrics m = measure_load(series(), 4, {.ttft = 300, .tpot = 450});
  EXPECT_EQ(m.completed, 3);
  EXPECT_EQ(m.failed, 1);
  EXPECT_EQ(m.input_tokens, 24);
  EXPECT_EQ(m.output_tokens, 9);
  EXPECT_DOUBLE_EQ(m.request_throughput, 0.75);
  EXPECT_DOUBLE_EQ(m.output_throughput, 2.25);
  EXPECT_DOUBLE_EQ(m.total_throughput, 8.25);
  // The first (TTFT 200, TPOT 400) and the third (100; one token, so no TPOT) are good.
  EXPECT_DOUBLE_EQ(m.request_goodput, 0.5);
  EXPECT_NEAR(m.ttft.mean, 700.0 / 3, 1e-9);
  EXPECT_NEAR(m.ttft.median, 200, 1e-9);
  EXPECT_NEAR(m.ttft.p99, 396, 1e-9);
  // (1.0 - 0.2) / 2 and (2.4 - 0.4) / 4
  EXPECT_NEAR(m.tpot.mean, 450, 1e-9);
  EXPECT_NEAR(m.tpot.p99, 499, 1e-9);
  EXPECT_NEAR(m.itl.median, 750, 1e-9);
  EXPECT_NEAR(m.itl.mean, 700, 1e-9);
  EXPECT_NEAR(m.e2el.median, 1000, 1e-9);
  // Seconds from 10 on have 3 + 1 pieces at 10.2, 10.5, 10.9, 11.0; so [10, 11) has 3.
  EXPECT_DOUBLE_EQ(m.peak_output, 3);
  EXPECT_EQ(m.peak_requests, 2);
}

TEST(LoadMetrics, OfNothingAreZero) {
  const LoadMetrics m = measure_load({{.error = "x"}}, 1, {});
  EXPECT_EQ(m.failed, 1);
  EXPECT_EQ(m.ttft.p99, 0);
  EXPECT_EQ(m.peak_output, 0);
}

TEST(LoadGoals, AreReadOrRefused) {
  const LoadGoals goals = load_goals_of("ttft:200,e2el:5000");
  EXPECT_EQ(goals.ttft, 200);
  EXPECT_FALSE(goals.tpot);
  EXPECT_EQ(goals.e2el, 5000);
  for (const char* bad :
       {"", "ttft", "ttft:", "ttft:x", "ttft:-1", "itl:5", "ttft:5,", "ttft:5x", "ttft:inf"})
    EXPECT_THROW(load_goals_of(bad), Error) << bad;
}

std::vector<std::string> names_of(const Json& json) {
  std::vector<std::string> names;
  for (const auto& [name, value] : json.object("json")) names.push_back(name);
  return names;
}

TEST(LoadReport, HasTheNamesOfVllm) {
  const LoadTold told{.date = "20260102-030405", .model = "m", .prompts = 4, .rate = 2};
  const LoadMetrics m = measure_load(series(), 4, {});
  const std::vector<std::string> expected{"date",
                                          "endpoint_type",
                                          "backend",
                                          "label",
                                          "model_id",
                                          "tokenizer_id",
                                          "num_prompts",
                                          "request_rate",
                                          "burstiness",
                                          "max_concurrency",
                                          "duration",
                                          "completed",
                                          "failed",
                                          "total_input_tokens",
                                          "total_output_tokens",
                                          "request_throughput",
                                          "request_goodput",
                                          "output_throughput",
                                          "total_token_throughput",
                                          "max_output_tokens_per_s",
                                          "max_concurrent_requests",
                                          "mean_ttft_ms",
                                          "median_ttft_ms",
                                          "std_ttft_ms",
                                          "p99_ttft_ms",
                                          "mean_tpot_ms",
                                          "median_tpot_ms",
                                          "std_tpot_ms",
                                          "p99_tpot_ms",
                                          "mean_itl_ms",
                                          "median_itl_ms",
                                          "std_itl_ms",
                                          "p99_itl_ms",
                                          "mean_e2el_ms",
                                          "median_e2el_ms",
                                          "std_e2el_ms",
                                          "p99_e2el_ms"};
  EXPECT_EQ(names_of(load_json(told, m, {}, series(), false)), expected);
  const Json detailed = load_json(told, m, {}, series(), true);
  EXPECT_EQ(names_of(detailed).size(), expected.size() + 7);
  for (const char* name :
       {"input_lens", "output_lens", "ttfts", "itls", "start_times", "generated_texts", "errors"}) {
    ASSERT_NE(detailed.find(name), nullptr) << name;
    EXPECT_EQ(detailed.find(name)->array(name).size(), 4u);
  }
  EXPECT_TRUE(load_json(told, m, {}, {}, false).find("request_goodput")->is_null());
}

TEST(LoadReport, TextIsInTheOrderOfVllm) {
  const LoadGoals goals{.ttft = 300};
  const LoadTold told{.prompts = 4, .rate = 2, .concurrency = 8, .cache_hits = 0.25};
  const std::string text = load_text(told, measure_load(series(), 4, goals), goals);
  std::size_t at = 0;
  for (const char* line : {"============ Serving Benchmark Result ============\n",
                           "Successful requests:                     3         \n",
                           "Failed requests:                         1         \n",
                           "Maximum request concurrency:             8         \n",
                           "Request rate configured (RPS):           2.00      \n",
                           "Benchmark duration (s):                  4.00      \n",
                           "Total input tokens:                      24        \n",
                           "Total generated tokens:                  9         \n",
                           "Request throughput (req/s):              0.75      \n",
                           "Request goodput (req/s):                 0.50      \n",
                           "Output token throughput (tok/s):         2.25      \n",
                           "Peak output token throughput (tok/s):    3.00      \n",
                           "Peak concurrent requests:                2.00      \n",
                           "Total token throughput (tok/s):          8.25      \n",
                           "Prefix cache hit rate (%):               25.00     \n",
                           "---------------Time to First Token----------------\n",
                           "Mean TTFT (ms):                          233.33    \n",
                           "-----Time per Output Token (excl. 1st token)------\n",
                           "Median TPOT (ms):                        450.00    \n",
                           "---------------Inter-token Latency----------------\n",
                           "P99 ITL (ms):                            1000.00   \n",
                           "----------------End-to-end Latency----------------\n",
                           "==================================================\n"}) {
    const std::size_t found = text.find(line, at);
    ASSERT_NE(found, std::string::npos) << line << " is not in\n" << text.substr(at);
    at = found;
  }
}

}  // namespace
}  // namespace trireme::test
