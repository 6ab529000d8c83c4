#include "recipes/api/api_request.h"

#include <limits>

#include "recipes/api/fields.h"
#include "recipes/api/habits.h"

namespace trireme {

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

std::vector<std::pair<std::int32_t, double>> bias_of(Fields& fields, const ServedModel& model,
                                                     std::size_t most) {
  std::vector<std::pair<std::int32_t, double>> bias;
  const Json* value = fields.take("logit_bias");
  if (!value) return bias;
  if (!value->is(Json::Kind::kObject) || value->object("").size() > most)
    throw ApiError(400, join("logit_bias: an object of at most ", most, " token ids is expected"),
                   "logit_bias", "invalid_value");
  for (const auto& [name, by] : value->object("")) {
    const bool digits = !name.empty() && name.size() < 10 &&
                        name.find_first_not_of("0123456789") == std::string::npos;
    const std::int64_t id = digits ? std::stoll(name) : -1;
    const bool numeric = by.is(Json::Kind::kInteger) || by.is(Json::Kind::kReal);
    if (id < 0 || id >= model.vocab || !numeric || !(std::abs(by.number("")) <= 100))
      throw ApiError(400,
                     join("logit_bias: token ids below ", model.vocab,
                          " with numbers from -100 to 100 are expected, here is \"",
                          name.substr(0, 32), "\": ", describe(by)),
                     "logit_bias", "invalid_value");
    bias.emplace_back(static_cast<std::int32_t>(id), by.number(""));
  }
  return bias;
}

Sampling sampling_of(Fields& fields, const ServedModel& model, const ApiLimits& limits,
                     std::uint64_t seed) {
  Sampling s = model.drawing;
  s.temperature = fields.number("temperature", 0, 2).value_or(s.temperature);
  s.top_p = fields.number("top_p", 0, 1).value_or(s.top_p);
  if (s.top_p == 0) fields.refuse("top_p", "a number above 0, up to 1, is expected");
  s.top_k = fields.integer("top_k", -1, kMost).value_or(s.top_k);
  s.min_p = fields.number("min_p", 0, 1).value_or(s.min_p);
  s.repetition_penalty =
      fields.number("repetition_penalty", 0.01, 100).value_or(s.repetition_penalty);
  s.presence_penalty = fields.number("presence_penalty", -2, 2).value_or(0);
  s.frequency_penalty = fields.number("frequency_penalty", -2, 2).value_or(0);
  s.bias = bias_of(fields, model, limits.bias);
  const auto given = fields.integer("seed", std::numeric_limits<std::int64_t>::min(),
                                    std::numeric_limits<std::int64_t>::max());
  s.seed = given ? static_cast<std::uint64_t>(*given) : seed;
  return s;
}

void read_stream(Fields& fields, ApiRequest& request) {
  request.stream = fields.flag("stream");
  const Json* value = fields.take("stream_options");
  if (!value) return;
  if (!request.stream)
    throw ApiError(400, "stream_options: only with \"stream\": true", "stream_options",
                   "invalid_value");
  Fields options(*value, "stream_options.");
  request.include_usage = options.flag("include_usage");
  options.only("include_obfuscation", {false});
  options.only("continuous_usage_stats", {false});
  options.end();
}

// What both kinds of requests have, but for the length.
GenerationRequest read_common(Fields& fields, ApiRequest& request, const ServedModel& model,
                              const ApiLimits& limits, std::uint64_t seed) {
  if (const auto name = fields.text("model")) check_name(*name, model);
  read_stream(fields, request);
  GenerationRequest g;
  g.sampling = sampling_of(fields, model, limits, seed);
  g.min_tokens = fields.integer("min_tokens", 0, kMost).value_or(0);
  if (!fields.flag("ignore_eos")) g.ends = request.chat ? model.answer_ends : model.ends;
  g.told = fields.ids("stop_token_ids", 128, model.vocab);
  g.ends.insert(g.ends.end(), g.told.begin(), g.told.end());
  g.stops = fields.texts("stop", limits.stops, limits.stop_bytes);
  g.include_stop = fields.flag("include_stop_str_in_output");
  g.skip_special = fields.maybe_flag("skip_special_tokens").value_or(true);
  request.choices = static_cast<int>(fields.integer("n", 1, limits.choices).value_or(1));
  g.choices = request.choices;
  for (const std::string& name : label_fields()) fields.text(name);
  fields.labels("metadata", kMetadataPairs, kMetadataBytes);
  for (const HabitField& field : habit_fields(request.chat)) fields.only(field.name, field.legal);
  return g;
}

// Prompt and answer must fit the model; `max_tokens` empty: what is left.
void set_length(GenerationRequest& g, std::optional<std::int64_t> max_tokens,
                const ServedModel& model, const std::string& field) {
  const std::int64_t prompt = std::ssize(g.prompt), left = model.context - prompt;
  const std::int64_t wanted = max_tokens.value_or(std::max<std::int64_t>(1, left));
  if (wanted > left)
    throw ApiError(400,
                   join("This model's maximum context length is ", model.context,
                        " tokens. However, you requested ", prompt + wanted, " tokens (", prompt,
                        " in the prompt, ", wanted, " for the answer). Reduce one of them."),
                   field, "context_length_exceeded");
  g.max_tokens = wanted;
  if (g.min_tokens > wanted)
    throw ApiError(
        400, join("min_tokens: at most the answer's ", wanted, " tokens, here are ", g.min_tokens),
        "min_tokens", "invalid_value");
}

// A string, an array of strings, of ids, or of arrays of ids.
std::vector<std::vector<std::int32_t>> prompts_of(Fields& fields, bool start,
                                                  const ServedModel& model, std::size_t most,
                                                  Encoder& encoder) {
  const Json* value = fields.take("prompt");
  const std::string expected =
      "a string, an array of strings, of token ids, or of arrays of token ids is expected";
  if (!value) fields.refuse("prompt", expected);
  if (value->is(Json::Kind::kString)) return {text_tokens(value->text(""), start, model, encoder)};
  if (!value->is(Json::Kind::kArray) || value->array("").empty()) fields.refuse("prompt", expected);
  const Json::Array& all = value->array("");
  if (whole_number(all[0])) return {token_ids(*value, "prompt", model.vocab)};
  if (all.size() > most)
    throw ApiError(400, join("prompt: at most ", most, " prompts, here are ", all.size()), "prompt",
                   "invalid_value");
  std::vector<std::vector<std::int32_t>> prompts;
  for (const Json& one : all) {
    if (one.kind() != all[0].kind()) fields.refuse("prompt", expected);
    if (one.is(Json::Kind::kString))
      prompts.push_back(text_tokens(one.text(""), start, model, encoder));
    else if (one.is(Json::Kind::kArray))
      prompts.push_back(token_ids(one, "prompt", model.vocab));
    else
      fields.refuse("prompt", expected);
  }
  return prompts;
}

std::string joined_content(const Json& content, const std::string& path, std::size_t most) {
  if (content.is(Json::Kind::kString)) return content.text("");
  if (!content.is(Json::Kind::kArray))
    throw ApiError(400, path + "content: a string, or an array of text parts, is expected",
                   path + "content", "invalid_type");
  std::string text;
  if (content.array("").size() > most)
    throw ApiError(400, join(path, "content: at most ", most, " parts are taken"), path + "content",
                   "invalid_value");
  for (const Json& one : content.array("")) {
    Fields part(one, path + "content[].");
    const auto type = part.text("type");
    if (type != "text")
      throw ApiError(400,
                     join(path, "content: parts of type \"text\" are understood, here is \"",
                          type.value_or("").substr(0, 32), "\""),
                     path + "content", "unsupported_parameter");
    const auto piece = part.text("text");
    if (!piece) part.refuse("text", "a string is expected");
    part.end();
    text += *piece;
  }
  return text;
}

// A message as templates see it: role, content, name.
Json message_of(const Json& value, const std::string& path, const ApiLimits& limits) {
  Fields message(value, path);
  const auto role = message.text("role");
  if (role != "system" && role != "developer" && role != "user" && role != "assistant")
    message.refuse("role", "system, developer, user or assistant is expected");
  const Json* content = message.take("content");
  if (!content) message.refuse("content", "a string, or an array of text parts, is expected");
  Json::Object plain{{"role", *role}, {"content", joined_content(*content, path, limits.parts)}};
  if (const auto name = message.text("name")) plain.emplace_back("name", *name);
  for (const char* none : {"refusal", "audio", "function_call"}) message.only(none, {});
  const Json empty = Json::Array();  // named: in braces it would be copied as the list of values
  for (const char* none : {"annotations", "tool_calls"}) message.only(none, {empty});
  message.end();
  return plain;
}

}  // namespace

void check_name(const std::string& name, const ServedModel& model) {
  if (name == model.name) return;
  throw ApiError(
      404,
      join("the model \"", name.substr(0, 128), "\" is not served here; \"", model.name, "\" is"),
      "model", "model_not_found");
}

std::vector<std::int32_t> text_tokens(const std::string& text, bool start, const ServedModel& model,
                                      Encoder& encoder) {
  std::vector<std::int32_t> ids;
  if (start && model.start) ids.push_back(*model.start);
  encoder.encode(text, ids);
  return ids;
}

std::vector<std::int32_t> chat_tokens(const Json& messages, const ServedModel& model,
                                      const ApiLimits& limits, Encoder& encoder) {
  if (!model.chat)
    throw ApiError(
        400,
        join("the model \"", model.name,
             model.chat_problem.empty()
                 ? "\" has no chat template"
                 : "\" has a chat template that cannot be used (" + model.chat_problem + ")",
             "; it continues texts: /v1/completions"),
        "messages", "unsupported_parameter");
  if (!messages.is(Json::Kind::kArray) || messages.array("").empty() ||
      messages.array("").size() > limits.messages)
    throw ApiError(400, join("messages: an array of 1 to ", limits.messages, " is expected"),
                   "messages", "invalid_value");
  Json::Array plain;
  for (const Json& message : messages.array(""))
    plain.push_back(message_of(message, join("messages[", plain.size(), "]."), limits));
  try {
    return model.chat->prompt(plain, Json(), encoder);
  } catch (const Error& error) {
    throw ApiError(400, error.what(), "messages", "invalid_value");
  }
}

namespace {

// The last message is an answer that is to go on: the tokens before it, and those of its text,
// which spells no control tokens.
std::vector<std::int32_t> open_answer_tokens(const Json& messages, const ServedModel& model,
                                             const ApiLimits& limits, Encoder& encoder) {
  const bool array = messages.is(Json::Kind::kArray) && messages.array("").size() > 1;
  const Json last =
      array ? message_of(messages.array("").back(), "messages[last].", limits) : Json();
  if (!array || last.at("role", "").text("") != "assistant")
    throw ApiError(400,
                   "continue_final_message: the last of several messages must be an assistant's",
                   "messages", "invalid_value");
  Json::Array before = messages.array("");
  before.pop_back();
  std::vector<std::int32_t> ids = chat_tokens(std::move(before), model, limits, encoder);
  const std::string& said = last.at("content", "").text("");
  encoder.encode(said, ids, {.continues = true, .strangers = std::string(said.size(), '\1')});
  return ids;
}

}  // namespace

ApiRequest read_completion(const Json& body, const ServedModel& model, const ApiLimits& limits,
                           Encoder& encoder, std::uint64_t seed) {
  Fields fields(body);
  ApiRequest request;
  const GenerationRequest common = read_common(fields, request, model, limits, seed);
  request.echo = fields.flag("echo");
  request.logprobs = static_cast<int>(fields.integer("logprobs", 0, limits.logprobs).value_or(-1));
  const auto max_tokens = fields.integer("max_tokens", 0, kMost).value_or(16);
  const bool start = fields.maybe_flag("add_special_tokens").value_or(true);
  fields.integer("best_of", request.choices, request.choices);
  auto prompts = prompts_of(fields, start, model,
                            static_cast<std::size_t>(limits.choices / request.choices), encoder);
  fields.end();
  for (auto& prompt : prompts) {
    if (prompt.empty()) throw ApiError(400, "prompt: it is empty", "prompt", "invalid_value");
    GenerationRequest& g = request.prompts.emplace_back(common);
    g.prompt = std::move(prompt);
    g.sampling.logprobs = request.logprobs;
    g.echo_logprobs = request.echo && request.logprobs >= 0;
    set_length(g, max_tokens, model, "max_tokens");
  }
  return request;
}

ApiRequest read_chat(const Json& body, const ServedModel& model, const ApiLimits& limits,
                     Encoder& encoder, std::uint64_t seed) {
  Fields fields(body);
  ApiRequest request{.chat = true};
  GenerationRequest& g = request.prompts.emplace_back();
  g = read_common(fields, request, model, limits, seed);
  const bool logprobs = fields.flag("logprobs");
  const auto top = fields.integer("top_logprobs", 0, limits.logprobs);
  if (top.value_or(0) > 0 && !logprobs)
    fields.refuse("top_logprobs", "only with \"logprobs\": true");
  request.logprobs = logprobs ? static_cast<int>(top.value_or(0)) : -1;
  g.sampling.logprobs = request.logprobs;
  auto max_tokens = fields.integer("max_tokens", 1, kMost);
  if (const auto newer = fields.integer("max_completion_tokens", 1, kMost)) max_tokens = newer;
  const bool goes_on = fields.flag("continue_final_message");
  if (goes_on == fields.maybe_flag("add_generation_prompt").value_or(!goes_on))
    fields.refuse("add_generation_prompt", "the contrary of continue_final_message is expected");
  const Json* messages = fields.take("messages");
  fields.end();
  g.prompt = goes_on ? open_answer_tokens(messages ? *messages : Json(), model, limits, encoder)
                     : chat_tokens(messages ? *messages : Json(), model, limits, encoder);
  set_length(g, max_tokens, model, "messages");
  return request;
}

}  // namespace trireme
