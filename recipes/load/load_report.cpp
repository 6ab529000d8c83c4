// What load_metrics.h says of reports.
#include <array>

#include "framework/base/error.h"
#include "recipes/load/load_metrics.h"
#include "recipes/report/numbers.h"

namespace trireme {

namespace {

constexpr std::size_t kName = 40, kWhole = 50;

std::string line(std::string name, std::string value) {
  name.resize(std::max(kName, name.size()), ' ');
  value.resize(std::max<std::size_t>(10, value.size()), ' ');
  return name + " " + value + "\n";
}

std::string title(const std::string& text, char fill) {
  const std::size_t left = (kWhole - text.size()) / 2;
  return std::string(left, fill) + text + std::string(kWhole - left - text.size(), fill) + "\n";
}

struct Latency {
  const char *word, *key, *title;
  Distribution LoadMetrics::*values;
};
constexpr std::array<Latency, 4> kLatencies{
    {{"TTFT", "ttft", "Time to First Token", &LoadMetrics::ttft},
     {"TPOT", "tpot", "Time per Output Token (excl. 1st token)", &LoadMetrics::tpot},
     {"ITL", "itl", "Inter-token Latency", &LoadMetrics::itl},
     {"E2EL", "e2el", "End-to-end Latency", &LoadMetrics::e2el}}};

void add_details(Json::Object& all, const std::vector<LoadOutcome>& outcomes) {
  Json::Array inputs, outputs, ttfts, itls, starts, texts, errors;
  for (const LoadOutcome& o : outcomes) {
    inputs.emplace_back(o.input_tokens);
    outputs.emplace_back(o.success ? o.output_tokens : 0);
    ttfts.emplace_back(o.ttft);
    itls.emplace_back(Json::Array(o.itl.begin(), o.itl.end()));
    starts.emplace_back(o.start);
    texts.emplace_back(o.text);
    errors.emplace_back(o.error);
  }
  all.emplace_back("input_lens", std::move(inputs));
  all.emplace_back("output_lens", std::move(outputs));
  all.emplace_back("ttfts", std::move(ttfts));
  all.emplace_back("itls", std::move(itls));
  all.emplace_back("start_times", std::move(starts));
  all.emplace_back("generated_texts", std::move(texts));
  all.emplace_back("errors", std::move(errors));
}

}  // namespace

std::string load_text(const LoadTold& told, const LoadMetrics& m, const LoadGoals& goals) {
  std::string text = title(" Serving Benchmark Result ", '=');
  text += line("Successful requests:", join(m.completed));
  text += line("Failed requests:", join(m.failed));
  if (told.concurrency) text += line("Maximum request concurrency:", join(*told.concurrency));
  if (told.rate) text += line("Request rate configured (RPS):", fixed(*told.rate, 2));
  text += line("Benchmark duration (s):", fixed(m.duration, 2));
  text += line("Total input tokens:", join(m.input_tokens));
  text += line("Total generated tokens:", join(m.output_tokens));
  text += line("Request throughput (req/s):", fixed(m.request_throughput, 2));
  if (goals.any()) text += line("Request goodput (req/s):", fixed(m.request_goodput, 2));
  text += line("Output token throughput (tok/s):", fixed(m.output_throughput, 2));
  text += line("Peak output token throughput (tok/s):", fixed(m.peak_output, 2));
  text += line("Peak concurrent requests:", fixed(static_cast<double>(m.peak_requests), 2));
  text += line("Total token throughput (tok/s):", fixed(m.total_throughput, 2));
  if (told.cache_hits) text += line("Prefix cache hit rate (%):", fixed(*told.cache_hits * 100, 2));
  for (const Latency& l : kLatencies) {
    const Distribution& d = m.*l.values;
    text += title(l.title, '-');
    text += line(join("Mean ", l.word, " (ms):"), fixed(d.mean, 2));
    text += line(join("Median ", l.word, " (ms):"), fixed(d.median, 2));
    text += line(join("P99 ", l.word, " (ms):"), fixed(d.p99, 2));
  }
  return text + std::string(kWhole, '=') + "\n";
}

Json load_json(const LoadTold& told, const LoadMetrics& m, const LoadGoals& goals,
               const std::vector<LoadOutcome>& outcomes, bool detailed) {
  const Json inf = "inf";
  Json::Object all{{"date", told.date},
                   {"endpoint_type", "openai"},
                   {"backend", "openai"},
                   {"label", Json()},
                   {"model_id", told.model},
                   {"tokenizer_id", told.model},
                   {"num_prompts", told.prompts},
                   {"request_rate", told.rate ? Json(*told.rate) : inf},
                   {"burstiness", told.burstiness ? Json(*told.burstiness) : inf},
                   {"max_concurrency", told.concurrency ? Json(*told.concurrency) : Json()},
                   {"duration", m.duration},
                   {"completed", m.completed},
                   {"failed", m.failed},
                   {"total_input_tokens", m.input_tokens},
                   {"total_output_tokens", m.output_tokens},
                   {"request_throughput", m.request_throughput},
                   {"request_goodput", goals.any() ? Json(m.request_goodput) : Json()},
                   {"output_throughput", m.output_throughput},
                   {"total_token_throughput", m.total_throughput}};
  if (detailed) add_details(all, outcomes);
  all.emplace_back("max_output_tokens_per_s", m.peak_output);
  all.emplace_back("max_concurrent_requests", m.peak_requests);
  for (const Latency& l : kLatencies) {
    const Distribution& d = m.*l.values;
    all.emplace_back(join("mean_", l.key, "_ms"), d.mean);
    all.emplace_back(join("median_", l.key, "_ms"), d.median);
    all.emplace_back(join("std_", l.key, "_ms"), d.deviation);
    all.emplace_back(join("p99_", l.key, "_ms"), d.p99);
  }
  return all;
}

}  // namespace trireme
