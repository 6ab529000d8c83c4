// What /metrics tells, in the text format of Prometheus (0.0.4), under vLLM's names with the label
// model_name. Times are from one steady clock. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "recipes/http/http_server.h"
#include "recipes/serve/serve_engine.h"

namespace trireme {

class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds)
      : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  void add(double value);
  // Of what was counted elsewhere: counts of values up to each bound, then of larger ones.
  Histogram(std::vector<double> bounds, std::vector<std::int64_t> counts, double sum);
  // Lines of name_bucket, name_sum and name_count.
  std::string text(const std::string& name, const std::string& label) const;

 private:
  std::vector<double> bounds_;
  std::vector<std::int64_t> counts_;
  double sum_ = 0;
  std::int64_t count_ = 0;
};

// One choice of a request, from its coming on.
struct ChoiceTimes {
  double begun = 0;
  double first = 0, last = 0;  // its tokens; 0: none yet
};

class ApiMetrics {
 public:
  ApiMetrics();
  void submitted(int choices) { submitted_ += choices; }
  std::int64_t under_way() const;  // submitted and not ended
  // An event of a choice.
  void heard(const GenerationEvent& event, ChoiceTimes& times);
  std::string text(const std::string& model, const ServeStats& engine,
                   const HttpCounts& http) const;

 private:
  Histogram first_token_, between_tokens_, whole_, queue_, prefill_, decode_;  // seconds
  Histogram prompt_tokens_, output_tokens_;
  std::int64_t submitted_ = 0;
  std::array<std::int64_t, 4> ended_ = {};  // by FinishReason
};

}  // namespace trireme
