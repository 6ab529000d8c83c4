#include "recipes/api/api_answer.h"

#include <algorithm>

#include "framework/data/tokenizers/utf8.h"

namespace trireme {

namespace {

constexpr double kLeast = -9999;  // JSON has no -infinity

double logprob_of(float value) { return value >= kLeast ? static_cast<double>(value) : kLeast; }

std::int64_t characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

Json finish_word(const GenerationEvent& event) {
  return event.finish ? Json(std::string(name_of(*event.finish))) : Json();
}

Json stop_word(const GenerationEvent& event) {
  if (event.stop_id) return std::int64_t{*event.stop_id};
  return event.stop.empty() ? Json() : Json(event.stop);
}

void append(Json::Array& all, const Json& more) {
  for (const Json& one : more.array("")) all.push_back(one);
}

// Two objects of arrays, or of one.
void append(Json& all, const Json& more) {
  if (all.is_null()) {
    all = more;
    return;
  }
  Json::Object joined;
  for (const auto& [name, values] : all.object("")) {
    Json::Array both = values.array("");
    append(both, more.at(name, ""));
    joined.emplace_back(name, std::move(both));
  }
  all = std::move(joined);
}

std::string event_text(const Json& data) { return "data: " + to_text(data) + "\n\n"; }

}  // namespace

std::string token_text(const Tokenizer& tokenizer, std::int64_t id) {
  const std::string_view text = tokenizer.piece(id, false).text;
  if (is_utf8(text)) return std::string(text);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string spelled = "bytes:";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    spelled += {'\\', 'x', kDigits[byte / 16], kDigits[byte % 16]};
  }
  return spelled;
}

struct ApiAnswer::Choice {
  StreamingDecoder offsets;  // where tokens stand in the text
  std::string before;        // the prompt's text, to be said first
  std::string text;
  Json logprobs, reason, stop;
  std::int64_t offset = 0;
  bool at_start = true;  // of an echoed prompt: nothing says how likely its first token is
};

ApiAnswer::ApiAnswer(const ApiRequest& request, const ServedModel& model, std::string id,
                     std::int64_t created)
    : chat_(request.chat),
      echo_(request.echo),
      include_usage_(request.include_usage),
      logprobs_(request.logprobs),
      each_(request.choices),
      model_(model),
      id_(std::move(id)),
      created_(created) {
  for (const GenerationRequest& prompt : request.prompts)
    for (int i = 0; i < each_; ++i) {
      Choice& c = choices_.emplace_back(
          Choice{.offsets = StreamingDecoder(model.tokenizer, prompt.skip_special)});
      if (echo_) c.before = to_utf8(model.tokenizer.decode(prompt.prompt, prompt.skip_special));
      if (logprobs_ >= 0 && !echo_)
        for (const std::int32_t token : prompt.prompt) c.offsets.push(token);
    }
}

ApiAnswer::ApiAnswer(ApiAnswer&&) noexcept = default;
ApiAnswer::~ApiAnswer() = default;

ApiAnswer::Choice& ApiAnswer::choice_of(std::size_t prompt, int choice) {
  return choices_.at(prompt * static_cast<std::size_t>(each_) + static_cast<std::size_t>(choice));
}

Json ApiAnswer::completion_logprobs(Choice& c, const std::vector<ChosenToken>& tokens) const {
  Json::Array texts, logprobs, tops, offsets;
  for (const ChosenToken& token : tokens) {
    const bool unknown = echo_ && c.at_start;
    c.at_start = false;
    const std::string text = token_text(model_.tokenizer, token.id);
    texts.emplace_back(text);
    logprobs.push_back(unknown ? Json() : Json(logprob_of(token.logprob)));
    offsets.emplace_back(c.offset);
    c.offset += characters(c.offsets.push(token.id));
    Json::Object top{{text, logprob_of(token.logprob)}};
    for (const TokenLogprob& other : token.top) {
      const std::string name = token_text(model_.tokenizer, other.id);
      if (std::none_of(top.begin(), top.end(), [&](const auto& one) { return one.first == name; }))
        top.emplace_back(name, logprob_of(other.logprob));
    }
    tops.push_back(unknown ? Json() : Json(std::move(top)));
  }
  return Json::Object{{"tokens", std::move(texts)},
                      {"token_logprobs", std::move(logprobs)},
                      {"top_logprobs", std::move(tops)},
                      {"text_offset", std::move(offsets)}};
}

Json ApiAnswer::chat_logprobs(const std::vector<ChosenToken>& tokens) const {
  const auto entry = [&](std::int32_t id, float logprob) {
    Json::Array bytes;
    for (const char c : model_.tokenizer.piece(id, false).text)
      bytes.emplace_back(static_cast<std::int64_t>(static_cast<unsigned char>(c)));
    return Json::Object{{"token", token_text(model_.tokenizer, id)},
                        {"logprob", logprob_of(logprob)},
                        {"bytes", std::move(bytes)}};
  };
  Json::Array content;
  for (const ChosenToken& token : tokens) {
    Json::Object one = entry(token.id, token.logprob);
    Json::Array top;
    for (const TokenLogprob& other : token.top) top.emplace_back(entry(other.id, other.logprob));
    one.emplace_back("top_logprobs", std::move(top));
    content.emplace_back(std::move(one));
  }
  return Json::Object{{"content", std::move(content)}};
}

Json ApiAnswer::logprobs_of(Choice& c, const std::vector<ChosenToken>& tokens) const {
  if (logprobs_ < 0) return {};
  return chat_ ? chat_logprobs(tokens) : completion_logprobs(c, tokens);
}

void ApiAnswer::count(std::size_t, const GenerationEvent& event) {
  if (!event.finish) return;
  if (event.choice == 0) {
    prompt_tokens_ += event.prompt_tokens;
    cached_tokens_ += event.cached_tokens;
  }
  output_tokens_ += event.output_tokens;
}

Json ApiAnswer::usage() const {
  return Json::Object{{"prompt_tokens", prompt_tokens_},
                      {"completion_tokens", output_tokens_},
                      {"total_tokens", prompt_tokens_ + output_tokens_},
                      {"prompt_tokens_details", Json::Object{{"cached_tokens", cached_tokens_}}}};
}

void ApiAnswer::add(std::size_t prompt, const GenerationEvent& event) {
  Choice& c = choice_of(prompt, event.choice);
  c.text += event.text;
  if (logprobs_ >= 0) append(c.logprobs, logprobs_of(c, event.tokens));
  c.reason = finish_word(event);
  c.stop = stop_word(event);
  count(prompt, event);
}

Json ApiAnswer::whole() const {
  Json::Array choices;
  for (const Choice& c : choices_) {
    Json::Object one{{"index", static_cast<std::int64_t>(choices.size())}};
    if (chat_)
      one.emplace_back("message", Json::Object{{"role", "assistant"}, {"content", c.text}});
    else
      one.emplace_back("text", c.before + c.text);
    one.emplace_back("logprobs", c.logprobs);
    one.emplace_back("finish_reason", c.reason);
    one.emplace_back("stop_reason", c.stop);
    choices.emplace_back(std::move(one));
  }
  return Json::Object{{"id", id_},
                      {"object", chat_ ? "chat.completion" : "text_completion"},
                      {"created", created_},
                      {"model", model_.name},
                      {"choices", std::move(choices)},
                      {"usage", usage()}};
}

std::string ApiAnswer::chunk(Json::Array choices, Json usage) const {
  Json::Object data{{"id", id_},
                    {"object", chat_ ? "chat.completion.chunk" : "text_completion"},
                    {"created", created_},
                    {"model", model_.name},
                    {"choices", std::move(choices)}};
  if (include_usage_) data.emplace_back("usage", std::move(usage));
  return event_text(data);
}

Json ApiAnswer::stream_choice(std::size_t index, Json content, Json logprobs, Json reason,
                              Json stop) const {
  return Json::Object{{"index", static_cast<std::int64_t>(index)},
                      {chat_ ? "delta" : "text", std::move(content)},
                      {"logprobs", std::move(logprobs)},
                      {"finish_reason", std::move(reason)},
                      {"stop_reason", std::move(stop)}};
}

std::string ApiAnswer::first_pieces() {
  std::string text;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (chat_)
      text += chunk(
          {stream_choice(i, Json::Object{{"role", "assistant"}, {"content", ""}}, {}, {}, {})}, {});
    else if (!choices_[i].before.empty())
      text += chunk({stream_choice(i, choices_[i].before, {}, {}, {})}, {});
  }
  return text;
}

std::string ApiAnswer::piece(std::size_t prompt, const GenerationEvent& event) {
  Choice& c = choice_of(prompt, event.choice);
  const auto index = static_cast<std::size_t>(&c - choices_.data());
  count(prompt, event);
  std::string text;
  const bool says = !event.text.empty() || (logprobs_ >= 0 && !event.tokens.empty());
  if (says) {
    Json content = chat_ ? Json(Json::Object{{"content", event.text}}) : Json(event.text);
    text +=
        chunk({stream_choice(index, std::move(content), logprobs_of(c, event.tokens), {}, {})}, {});
  }
  if (event.finish) {
    Json content = chat_ ? Json(Json::Object{}) : Json("");
    text += chunk(
        {stream_choice(index, std::move(content), {}, finish_word(event), stop_word(event))}, {});
  }
  return text;
}

std::string ApiAnswer::last_pieces() const {
  return (include_usage_ ? chunk({}, usage()) : std::string()) + "data: [DONE]\n\n";
}

std::string ApiAnswer::error_piece(const ApiError& error) { return event_text(error_json(error)); }

}  // namespace trireme
