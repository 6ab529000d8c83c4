#include "recipes/chat/line_requests.h"

#include <algorithm>
#include <array>

namespace trireme {

namespace {

constexpr std::string_view kGenerated = "generated";
constexpr std::array<std::string_view, 16> kOwn{"max_tokens",
                                                "temperature",
                                                "top_p",
                                                "top_k",
                                                "min_p",
                                                "repetition_penalty",
                                                "presence_penalty",
                                                "frequency_penalty",
                                                "seed",
                                                "stop",
                                                "stop_token_ids",
                                                "include_stop_str_in_output",
                                                "ignore_eos",
                                                "min_tokens",
                                                "logit_bias",
                                                "skip_special_tokens"};
constexpr std::array<std::string_view, 16> kRefused{
    "n",          "best_of",         "logprobs",        "top_logprobs",
    "echo",       "suffix",          "stream",          "stream_options",
    "tools",      "tool_choice",     "functions",       "function_call",
    "modalities", "prompt_logprobs", "response_format", "max_completion_tokens"};

template <typename Names>
bool is_among(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "line:1:17: what" of parse_json as "column 17: what".
Json::Object parsed(std::string_view line) {
  constexpr std::string_view kPlace = "line:1:";
  try {
    const Json json = parse_json(line, "line");
    check(json.is(Json::Kind::kObject), "an object is expected, here is ", describe(json));
    return json.object("line");
  } catch (const Error& error) {
    const std::string what = error.what();
    throw Error(what.starts_with(kPlace) ? "column " + what.substr(kPlace.size()) : what);
  }
}

// What read_completion() or read_chat() is given: the command line's settings, over them the
// line's.
Json body_of(const Json::Object& given, bool chat, const AnswerSettings& settings) {
  const Sampling& s = settings.sampling;
  Json::Object body;
  const auto put = [&](const std::string& name, Json value) {
    for (auto& [known, old] : body)
      if (known == name) {
        old = std::move(value);
        return;
      }
    body.emplace_back(name, std::move(value));
  };
  put("max_tokens", 1);  // of its own, or set from the room that is left
  put("temperature", std::min(s.temperature, 2.0));
  put("top_k", s.top_k);
  put("top_p", s.top_p);
  put("min_p", s.min_p);
  put("repetition_penalty", s.repetition_penalty);
  put("presence_penalty", s.presence_penalty);
  put("frequency_penalty", s.frequency_penalty);
  put("seed", static_cast<std::int64_t>(s.seed));
  Json::Array stops(settings.stops.begin(), settings.stops.end());
  if (!stops.empty()) put("stop", std::move(stops));
  for (const auto& [name, value] : given) {
    const bool asks = name == (chat ? "messages" : "prompt");
    if (asks || is_among(kOwn, name) || (!chat && name == "add_special_tokens")) put(name, value);
  }
  return body;
}

bool has(const Json::Object& given, std::string_view name) {
  return std::any_of(given.begin(), given.end(), [&](const auto& m) { return m.first == name; });
}

void check_names(const Json::Object& given) {
  check(has(given, "prompt") != has(given, "messages"),
        has(given, "prompt") ? "\"prompt\" and \"messages\": one of them is expected"
                             : "\"prompt\" or \"messages\" is expected");
  for (const auto& [name, value] : given) {
    check(name != kGenerated,
          "the name \"generated\" is the answer's; rename this member of the line");
    check(!is_among(kRefused, name), "\"", name, "\" is not supported in lines",
          name == "max_completion_tokens" ? "; max_tokens is" : "");
  }
}

}  // namespace

LineRequest read_line_request(std::string_view line, const ServedModel& model,
                              const AnswerSettings& settings, Encoder& encoder) {
  LineRequest asked{.given = parsed(line), .request = {}};
  check_names(asked.given);
  const bool chat = has(asked.given, "messages");
  const Json body = body_of(asked.given, chat, settings);
  if (const Json* prompt = body.find("prompt"))
    check(prompt->is(Json::Kind::kString), "prompt: a string is expected, here is ",
          describe(*prompt));
  const ApiLimits limits;
  ApiRequest read = chat ? read_chat(body, model, limits, encoder, settings.sampling.seed)
                         : read_completion(body, model, limits, encoder, settings.sampling.seed);
  asked.request = std::move(read.prompts[0]);
  asked.request.sampling.temperature = has(asked.given, "temperature")
                                           ? asked.request.sampling.temperature
                                           : settings.sampling.temperature;
  if (!has(asked.given, "max_tokens")) {
    const std::int64_t room = model.context - std::ssize(asked.request.prompt);
    asked.request.max_tokens = std::min(settings.tokens > 0 ? settings.tokens : room, room);
  }
  return asked;
}

std::string answer_line(const LineRequest& asked, const LineAnswer& answer) {
  Json::Object generated{{"text", answer.text},
                         {"finish_reason", std::string(name_of(answer.reason))},
                         {"prompt_tokens", answer.prompt_tokens},
                         {"completion_tokens", answer.completion_tokens},
                         {"seed", static_cast<std::int64_t>(asked.request.sampling.seed)}};
  if (!answer.error.empty()) generated.emplace_back("error", answer.error);
  Json::Object all = asked.given;
  all.emplace_back(std::string(kGenerated), std::move(generated));
  return to_text(all);
}

bool answers(std::string_view line, const Json::Object& given) {
  try {
    Json::Object all = parse_json(line, "line").object("line");
    if (all.empty() || all.back().first != kGenerated) return false;
    all.pop_back();
    return all == given;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace trireme
