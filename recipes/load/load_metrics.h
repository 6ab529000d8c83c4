// What a load on a server measured, under the names and in the order of `vllm bench serve`, so that
// scripts that read one read the other. Pure functions; seconds inside, milliseconds in reports.
//
//   TTFT  from sending to the first piece of the answer
//   TPOT  (latency - TTFT) / (tokens - 1), of answers with more than one token
//   ITL   between two pieces that came one after the other
//   E2EL  from sending to the last piece
// Percentiles are numpy's: linear between ranks. Deviations are of all values (divided by n).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/base/json/json.h"

namespace trireme {

// One request and its answer.
struct LoadOutcome {
  bool success = false;
  double start = 0;  // when it was sent, by any clock
  double ttft = 0, latency = 0;
  std::vector<double> itl = {};
  std::int64_t input_tokens = 0, output_tokens = 0;
  std::string text = {}, error = {};
};

// What counts as good, in milliseconds; none given: no goodput is told.
struct LoadGoals {
  std::optional<double> ttft, tpot, e2el;
  bool any() const { return ttft || tpot || e2el; }
};
// Of "ttft:200,tpot:50,e2el:5000". Error naming what is wrong.
LoadGoals load_goals_of(const std::string& text);

// Milliseconds.
struct Distribution {
  double mean = 0, median = 0, deviation = 0, p99 = 0;
};
// `values` in seconds; all 0 if there are none.
Distribution distribution_of(std::vector<double> values);
// 0 <= percent <= 100, of values in any order; 0 if there are none.
double percentile_of(std::vector<double> values, double percent);

struct LoadMetrics {
  double duration = 0;
  std::int64_t completed = 0, failed = 0, input_tokens = 0, output_tokens = 0;
  double request_throughput = 0, request_goodput = 0;
  double output_throughput = 0, total_throughput = 0;
  double peak_output = 0;  // pieces in the fullest second
  std::int64_t peak_requests = 0;
  Distribution ttft, tpot, itl, e2el;
};
LoadMetrics measure_load(const std::vector<LoadOutcome>& outcomes, double duration,
                         const LoadGoals& goals);

// What was asked for, as far as reports tell it.
struct LoadTold {
  std::string date, model;  // "20260102-150405"
  std::int64_t prompts = 0;
  std::optional<double> rate;               // none: all at once
  std::optional<double> burstiness = 1;     // none: evenly
  std::optional<std::int64_t> concurrency;  // none: no limit
  std::optional<double> cache_hits;         // of the prompts' tokens, 0 to 1; none: not known
};
std::string load_text(const LoadTold& told, const LoadMetrics& metrics, const LoadGoals& goals);
// `detailed`: with one value for each request.
Json load_json(const LoadTold& told, const LoadMetrics& metrics, const LoadGoals& goals,
               const std::vector<LoadOutcome>& outcomes, bool detailed);

}  // namespace trireme
