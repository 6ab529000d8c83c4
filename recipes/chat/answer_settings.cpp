#include "recipes/chat/answer_settings.h"

#include <algorithm>
#include <functional>

#include "framework/base/error.h"
#include "recipes/cli/nearest.h"
#include "recipes/cli/values.h"
#include "recipes/report/numbers.h"

namespace trireme {

namespace {

constexpr double kMostCount = 1'000'000'000;

struct RealSetting {
  const char* name;
  double Sampling::*member;
  double least, most;
  const char* expected;
};
constexpr RealSetting kReals[] = {
    {"temperature", &Sampling::temperature, 0, 1000,
     "a number from 0 (the likeliest token) to 1000"},
    {"top_p", &Sampling::top_p, 1e-12, 1, "a number above 0, up to 1"},
    {"min_p", &Sampling::min_p, 0, 1, "a number from 0 to 1"},
    {"repetition_penalty", &Sampling::repetition_penalty, 0.01, 100, "a number from 0.01 to 100"},
    {"presence_penalty", &Sampling::presence_penalty, -2, 2, "a number from -2 to 2"},
    {"frequency_penalty", &Sampling::frequency_penalty, -2, 2, "a number from -2 to 2"},
};

std::string wrong(const std::string& name, const std::string& value, const std::string& expected) {
  return join(name, " = ", value, ": expected ", expected);
}

std::string set_count(const std::string& name, const std::string& value, double least,
                      const std::string& expected, const std::function<void(std::int64_t)>& take) {
  const auto count = parse_count(value);
  if (!count || static_cast<double>(*count) < least ||
      (name != "seed" && static_cast<double>(*count) > kMostCount))
    return wrong(name, value, expected);
  take(*count);
  return {};
}

}  // namespace

const std::vector<std::string>& setting_names() {
  static const std::vector<std::string> names{
      "temperature",       "top_k", "top_p",  "min_p", "repetition_penalty", "presence_penalty",
      "frequency_penalty", "seed",  "tokens", "stop"};
  return names;
}

std::string set_answer(AnswerSettings& s, const std::string& name, const std::string& value) {
  for (const RealSetting& real : kReals) {
    if (name != real.name) continue;
    const auto number = parse_number(value);
    if (!number || !(*number >= real.least && *number <= real.most))
      return wrong(name, value, real.expected);
    s.sampling.*real.member = *number;
    return {};
  }
  if (name == "top_k")
    return set_count(name, value, 0, "a whole number, 0 for all",
                     [&](std::int64_t n) { s.sampling.top_k = n; });
  if (name == "seed")
    return set_count(name, value, 0, "a whole number from 0 on",
                     [&](std::int64_t n) { s.sampling.seed = static_cast<std::uint64_t>(n); });
  if (name == "tokens")
    return set_count(name, value, 1, "a whole number from 1 on",
                     [&](std::int64_t n) { s.tokens = n; });
  if (name == "stop") {
    if (value.empty())
      s.stops.clear();
    else
      s.stops.push_back(value);
    return {};
  }
  const std::string near = nearest_word(name, setting_names());
  return join("there is no setting \"", name, "\"",
              near.empty() ? "; settings: " + one_of(setting_names()) : "; nearest: " + near);
}

std::string setting_text(const AnswerSettings& s, const std::string& name) {
  for (const RealSetting& real : kReals)
    if (name == real.name) return number_text(s.sampling.*real.member);
  if (name == "top_k") return join(s.sampling.top_k);
  if (name == "seed") return join(s.sampling.seed);
  if (name == "tokens") return s.tokens == 0 ? "as many as fit" : join(s.tokens);
  std::string all;
  for (const std::string& stop : s.stops) all += join(all.empty() ? "" : ", ", json_string(stop));
  return all.empty() ? "none" : all;
}

}  // namespace trireme
