#include "recipes/load/load_metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "framework/base/error.h"

namespace trireme {

namespace {

double mean_of(const std::vector<double>& values) {
  return values.empty() ? 0
                        : std::accumulate(values.begin(), values.end(), 0.0) /
                              static_cast<double>(values.size());
}

double tpot_of(const LoadOutcome& o) {
  return o.output_tokens > 1 ? (o.latency - o.ttft) / static_cast<double>(o.output_tokens - 1) : 0;
}

bool is_good(const LoadOutcome& o, const LoadGoals& goals) {
  const auto within = [](const std::optional<double>& goal, double seconds) {
    return !goal || seconds * 1e3 <= *goal;
  };
  return within(goals.ttft, o.ttft) && within(goals.tpot, tpot_of(o)) &&
         within(goals.e2el, o.latency);
}

// Pieces and requests of the fullest second, counted from the first request on.
void find_peaks(const std::vector<LoadOutcome>& outcomes, LoadMetrics& m) {
  double begin = 0, end = 0;
  bool any = false;
  for (const LoadOutcome& o : outcomes) {
    if (!o.success) continue;
    begin = any ? std::min(begin, o.start) : o.start;
    end = any ? std::max(end, o.start + o.latency) : o.start + o.latency;
    any = true;
  }
  if (!any) return;
  const auto seconds = static_cast<std::size_t>(std::ceil(end - begin)) + 1;
  std::vector<double> pieces(seconds);
  std::vector<std::int64_t> requests(seconds);
  const auto second_of = [&](double time) { return static_cast<std::size_t>(time - begin); };
  for (const LoadOutcome& o : outcomes) {
    if (!o.success) continue;
    double time = o.start + o.ttft;
    if (second_of(time) < seconds) ++pieces[second_of(time)];
    for (const double gap : o.itl)
      if (second_of(time += gap) < seconds) ++pieces[second_of(time)];
    for (std::size_t s = second_of(o.start); s <= second_of(o.start + o.latency); ++s)
      ++requests[s];
  }
  m.peak_output = *std::max_element(pieces.begin(), pieces.end());
  m.peak_requests = *std::max_element(requests.begin(), requests.end());
}

}  // namespace

double percentile_of(std::vector<double> values, double percent) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double place = percent / 100 * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  if (below + 1 >= values.size()) return values.back();
  return values[below] + (place - static_cast<double>(below)) * (values[below + 1] - values[below]);
}

Distribution distribution_of(std::vector<double> values) {
  Distribution d{.mean = mean_of(values) * 1e3,
                 .median = percentile_of(values, 50) * 1e3,
                 .p99 = percentile_of(values, 99) * 1e3};
  for (double& value : values) value = (value * 1e3 - d.mean) * (value * 1e3 - d.mean);
  d.deviation = std::sqrt(mean_of(values));
  return d;
}

LoadGoals load_goals_of(const std::string& text) {
  LoadGoals goals;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const std::size_t colon = part.find(':');
    const std::string name = part.substr(0, colon);
    double value = -1;
    try {
      std::size_t used = 0;
      const std::string number = colon == std::string::npos ? "" : part.substr(colon + 1);
      value = std::stod(number, &used);
      if (used != number.size()) value = -1;
    } catch (const std::exception&) {
      value = -1;
    }
    check(
        std::isfinite(value) && value >= 0 && (name == "ttft" || name == "tpot" || name == "e2el"),
        "\"", part, "\": expected ttft:MS, tpot:MS or e2el:MS, with commas between");
    (name == "ttft" ? goals.ttft : name == "tpot" ? goals.tpot : goals.e2el) = value;
    begin = end + 1;
  }
  return goals;
}

LoadMetrics measure_load(const std::vector<LoadOutcome>& outcomes, double duration,
                         const LoadGoals& goals) {
  LoadMetrics m{.duration = duration};
  std::vector<double> ttfts, tpots, itls, e2els;
  std::int64_t good = 0;
  for (const LoadOutcome& o : outcomes) {
    if (!o.success) {
      ++m.failed;
      continue;
    }
    ++m.completed;
    m.input_tokens += o.input_tokens;
    m.output_tokens += o.output_tokens;
    ttfts.push_back(o.ttft);
    e2els.push_back(o.latency);
    if (o.output_tokens > 1) tpots.push_back(tpot_of(o));
    itls.insert(itls.end(), o.itl.begin(), o.itl.end());
    if (goals.any() && is_good(o, goals)) ++good;
  }
  const auto rate = [&](std::int64_t count) {
    return duration > 0 ? static_cast<double>(count) / duration : 0;
  };
  m.request_throughput = rate(m.completed);
  m.request_goodput = rate(good);
  m.output_throughput = rate(m.output_tokens);
  m.total_throughput = rate(m.input_tokens + m.output_tokens);
  find_peaks(outcomes, m);
  m.ttft = distribution_of(std::move(ttfts));
  m.tpot = distribution_of(std::move(tpots));
  m.itl = distribution_of(std::move(itls));
  m.e2el = distribution_of(std::move(e2els));
  return m;
}

}  // namespace trireme
