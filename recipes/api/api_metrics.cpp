#include "recipes/api/api_metrics.h"

#include <functional>
#include <numeric>

#include "framework/base/error.h"
#include "recipes/serve/stream_bench.h"

namespace trireme {

namespace {

const std::vector<double> kSeconds{0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1,
                                   2.5,  5,    7.5,  10,   20,   40,  80,   160, 640};
const std::vector<double> kTokens{1,   2,    5,    10,   20,    50,    100,   200,
                                  500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '"') result += '\\';
    result += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return result;
}

std::string head(const std::string& name, const char* type, const char* help) {
  return join("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds, std::vector<std::int64_t> counts, double sum)
    : bounds_(std::move(bounds)), counts_(std::move(counts)), sum_(sum) {
  for (const std::int64_t n : counts_) count_ += n;
}

void Histogram::add(double value) {
  std::size_t at = 0;
  while (at < bounds_.size() && value > bounds_[at]) ++at;
  ++counts_[at];
  ++count_;
  sum_ += value;
}

std::string Histogram::text(const std::string& name, const std::string& label) const {
  std::string lines;
  std::int64_t below = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    below += counts_[i];
    lines += join(name, "_bucket{", label, ",le=\"",
                  i < bounds_.size() ? join(bounds_[i]) : std::string("+Inf"), "\"} ", below, "\n");
  }
  return lines +
         join(name, "_sum{", label, "} ", sum_, "\n", name, "_count{", label, "} ", count_, "\n");
}

ApiMetrics::ApiMetrics()
    : first_token_(kSeconds),
      between_tokens_(kSeconds),
      whole_(kSeconds),
      queue_(kSeconds),
      prefill_(kSeconds),
      decode_(kSeconds),
      prompt_tokens_(kTokens),
      output_tokens_(kTokens) {}

std::int64_t ApiMetrics::under_way() const {
  return std::accumulate(ended_.begin(), ended_.end(), submitted_, std::minus<>());
}

void ApiMetrics::heard(const GenerationEvent& event, ChoiceTimes& times) {
  if (!event.tokens.empty()) {
    (times.last == 0 ? first_token_ : between_tokens_)
        .add(event.said - (times.last == 0 ? times.begun : times.last));
    times.last = event.said;
    if (times.first == 0) times.first = event.said;
  }
  if (!event.finish) return;
  ++ended_[static_cast<std::size_t>(*event.finish)];
  if (*event.finish != FinishReason::kStop && *event.finish != FinishReason::kLength) return;
  whole_.add(event.said - times.begun);
  prompt_tokens_.add(static_cast<double>(event.prompt_tokens));
  output_tokens_.add(static_cast<double>(event.output_tokens));
  if (event.started == 0) return;
  queue_.add(event.started - times.begun);
  if (times.first == 0) return;
  prefill_.add(times.first - event.started);
  decode_.add(times.last - times.first);
}

std::string ApiMetrics::text(const std::string& model, const ServeStats& engine,
                             const HttpCounts& http) const {
  const std::string label = "model_name=\"" + escaped(model) + "\"";
  std::string all;
  const auto one = [&](const std::string& name, const char* type, auto value, const char* help) {
    all += head(name, type, help) + join(name, "{", label, "} ", value, "\n");
  };
  one("vllm:num_requests_running", "gauge", engine.running, "Answers that are being made.");
  one("vllm:num_requests_waiting", "gauge", engine.waiting, "Answers that wait for room.");
  one("vllm:kv_cache_usage_perc", "gauge",
      engine.pages == 0
          ? 0.0
          : 1 - static_cast<double>(engine.free_pages) / static_cast<double>(engine.pages),
      "Part of the key/value cache in use, 0 to 1.");
  one("vllm:prefix_cache_queries_total", "counter", engine.prefix_queries,
      "Tokens of prompts that were looked for in the cache.");
  one("vllm:prefix_cache_hits_total", "counter", engine.prefix_hits, "Those that were there.");
  one("vllm:num_preemptions_total", "counter", engine.preemptions,
      "Answers that gave their room to older ones, to be computed again.");
  if (engine.streamed.passes > 0) {
    one("trireme:weight_stream_bytes_total", "counter", engine.streamed.bytes,
        "Bytes of weights that were streamed to the device, of one rank.");
    one("trireme:weight_stream_stall_seconds_total", "counter", engine.streamed.stalled,
        "Seconds that passes waited for weights.");
    one("trireme:weight_stream_overlap_ratio", "gauge", overlap_of(engine.streamed),
        "How much of the stream and of computing ran at the same time, 0 to 1.");
  }
  one("vllm:prompt_tokens_total", "counter", engine.prompt_tokens, "Tokens of prompts computed.");
  one("vllm:generation_tokens_total", "counter", engine.output_tokens, "Tokens of answers.");
  const std::string success = "vllm:request_success_total";
  all += head(success, "counter", "Answers that ended, by reason.");
  constexpr std::array<const char*, 4> kReasons{"stop", "length", "abort", "error"};
  for (std::size_t i = 0; i < kReasons.size(); ++i)
    all += join(success, "{", label, ",finished_reason=\"", kReasons[i], "\"} ", ended_[i], "\n");
  const auto histogram = [&](const std::string& name, const Histogram& h, const char* help) {
    all += head(name, "histogram", help) + h.text(name, label);
  };
  histogram("vllm:time_to_first_token_seconds", first_token_, "From a request to its first token.");
  histogram("vllm:inter_token_latency_seconds", between_tokens_, "Between two tokens.");
  histogram("vllm:e2e_request_latency_seconds", whole_, "From a request to its end.");
  histogram("vllm:request_queue_time_seconds", queue_, "From a request to its first pass.");
  histogram("vllm:request_prefill_time_seconds", prefill_, "From there to its first token.");
  histogram("vllm:request_decode_time_seconds", decode_, "From the first token to the last.");
  histogram("vllm:request_prompt_tokens", prompt_tokens_, "Tokens of a prompt.");
  histogram("vllm:request_generation_tokens", output_tokens_, "Tokens of an answer.");
  histogram("vllm:iteration_tokens_total",
            Histogram({ServeStats::kPassTokens.begin(), ServeStats::kPassTokens.end()},
                      {engine.passes_of.begin(), engine.passes_of.end()},
                      static_cast<double>(engine.computed_tokens)),
            "Tokens of a pass.");
  one("trireme:answers_submitted_total", "counter", submitted_, "Answers that were asked for.");
  one("trireme:http_connections", "gauge", http.connections, "Open connections.");
  one("trireme:http_connections_total", "counter", http.accepted, "Connections accepted.");
  one("trireme:http_turned_away_total", "counter", http.turned_away, "Connections over the limit.");
  one("trireme:http_requests_total", "counter", http.requests, "Requests with a good frame.");
  one("trireme:http_refused_total", "counter", http.refused, "Requests with a bad one.");
  one("trireme:http_gone_total", "counter", http.gone, "Clients that went before their answer.");
  return all;
}

}  // namespace trireme
