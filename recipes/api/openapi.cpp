#include "recipes/api/openapi.h"

#include <limits>
#include <vector>

#include "recipes/api/habits.h"
#include "recipes/api/openapi_answers.h"

namespace trireme {

namespace {

using Object = Json::Object;

Json number(double least, double most, double otherwise, const char* text) {
  return Object{{"type", "number"},
                {"minimum", least},
                {"maximum", most},
                {"default", otherwise},
                {"description", text}};
}

Json integer(std::int64_t least, std::int64_t most, const char* text) {
  return Object{{"type", "integer"}, {"minimum", least}, {"maximum", most}, {"description", text}};
}

Json flag(bool otherwise, const char* text) {
  return Object{{"type", "boolean"}, {"default", otherwise}, {"description", text}};
}

Json text(const char* what) { return Object{{"type", "string"}, {"description", what}}; }

Json strings(std::int64_t least, std::int64_t most) {
  return Object{{"type", "string"}, {"minLength", least}, {"maxLength", most}};
}

Json array_of(Json items, std::int64_t least, std::int64_t most) {
  return Object{
      {"type", "array"}, {"minItems", least}, {"maxItems", most}, {"items", std::move(items)}};
}

Json any_of(Json::Array kinds, const char* what) {
  return Object{{"anyOf", std::move(kinds)}, {"description", what}};
}

// The values that a field may have here, where there are few.
Json only(std::vector<Json> values, const std::string& what) {
  return Object{{"enum", Json::Array(std::move(values))}, {"description", what}};
}

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr const char* kNotHere = "Nothing else is supported.";
constexpr const char* kNoEffect = "Without effect.";

Object common_fields(const ApiLimits& limits) {
  const auto stops = static_cast<std::int64_t>(limits.stops);
  const Json stop = strings(1, static_cast<std::int64_t>(limits.stop_bytes));
  return {
      {"model", text("The served model's name; another is 404.")},
      {"temperature",
       number(0, 2, 1,
              "Below 1e-5: always the likeliest token. If left out: what the model folder's "
              "generation_config.json says; so are top_p, top_k, min_p and repetition_penalty.")},
      {"top_p", Object{{"type", "number"},
                       {"exclusiveMinimum", 0},
                       {"maximum", 1},
                       {"default", 1},
                       {"description", "Of the likeliest tokens with this sum of probability."}}},
      {"top_k", integer(-1, kMost, "Of the likeliest k tokens; 0 or -1: of all.")},
      {"min_p", number(0, 1, 0, "Of tokens at least so likely, as part of the likeliest one.")},
      {"repetition_penalty", number(0.01, 100, 1, "Of tokens in prompt and answer.")},
      {"presence_penalty", number(-2, 2, 0, "Of tokens in the answer.")},
      {"frequency_penalty", number(-2, 2, 0, "Of tokens in the answer, each time.")},
      {"seed", integer(std::numeric_limits<std::int64_t>::min(),
                       std::numeric_limits<std::int64_t>::max(), "The same seed draws the same.")},
      {"n", integer(1, limits.choices, "Answers to each prompt.")},
      {"min_tokens", integer(0, kMost, "No end before so many; at most those of the answer.")},
      {"stop", any_of({stop, array_of(stop, 0, stops)},
                      "A string that ends the answer, or an array of some; lengths in bytes.")},
      {"stop_token_ids", Object{{"type", "array"},
                                {"maxItems", 128},
                                {"items", Object{{"type", "integer"}, {"minimum", 0}}},
                                {"description", "Tokens that end the answer."}}},
      {"include_stop_str_in_output", flag(false, "Whether the stop string is said.")},
      {"ignore_eos", flag(false, "Whether the model's own end is no end.")},
      {"skip_special_tokens", flag(true, "Whether control tokens are no text.")},
      {"logit_bias", Object{{"type", "object"},
                            {"maxProperties", static_cast<std::int64_t>(limits.bias)},
                            {"propertyNames", Object{{"pattern", "^[0-9]{1,9}$"}}},
                            {"additionalProperties",
                             Object{{"type", "number"}, {"minimum", -100}, {"maximum", 100}}},
                            {"description", "Token ids with numbers from -100 to 100."}}},
      {"stream", flag(false, "Server-sent events as tokens come.")},
      {"stream_options",
       Object{{"type", "object"},
              {"additionalProperties", false},
              {"properties", Object{{"include_usage", flag(false, "Usage in a last chunk.")},
                                    {"include_obfuscation", only({false}, kNotHere)},
                                    {"continuous_usage_stats", only({false}, kNotHere)}}},
              {"description", "Only with stream."}}},
      {"metadata", Object{{"type", "object"},
                          {"maxProperties", static_cast<std::int64_t>(kMetadataPairs)},
                          {"additionalProperties",
                           Object{{"type", "string"},
                                  {"maxLength", static_cast<std::int64_t>(kMetadataBytes)}}},
                          {"description", kNoEffect}}}};
}

// What has no effect.
void add_habits(Object& fields, bool chat) {
  for (const std::string& name : label_fields()) fields.emplace_back(name, text(kNoEffect));
  for (const HabitField& field : habit_fields(chat))
    fields.emplace_back(field.name, only(field.legal, field.help + " " + kNotHere));
}

Json schema(Object fields, const char* required) {
  return Object{{"type", "object"},
                {"additionalProperties", false},
                {"required", Json::Array{required}},
                {"properties", std::move(fields)}};
}

Json completion(const ApiLimits& limits) {
  const Json piece = Object{{"type", "string"}, {"minLength", 1}};
  const Json ids = Object{
      {"type", "array"}, {"minItems", 1}, {"items", Object{{"type", "integer"}, {"minimum", 0}}}};
  Object fields{{"prompt", any_of({piece, array_of(piece, 1, limits.choices), ids,
                                   array_of(ids, 1, limits.choices)},
                                  "A string, an array of strings, of token ids, or of arrays "
                                  "of token ids; prompts x n at most the most n.")},
                {"max_tokens", integer(0, kMost,
                                       "Of the answer, 16 if left out; with the prompt's at "
                                       "most the context. 0 with echo scores the prompt.")},
                {"echo", flag(false, "The prompt before the answer.")},
                {"logprobs", integer(0, limits.logprobs, "Of so many likeliest tokens.")},
                {"add_special_tokens", flag(true, "The model's start token before the prompt.")},
                {"best_of", integer(1, limits.choices, "As many as n.")}};
  for (auto& field : common_fields(limits)) fields.push_back(std::move(field));
  add_habits(fields, false);
  return schema(std::move(fields), "prompt");
}

// What templates take beside that has no meaning here is legal where it says nothing.
Json messages(const ApiLimits& limits) {
  const Json part =
      Object{{"type", "object"},
             {"additionalProperties", false},
             {"required", Json::Array{"type", "text"}},
             {"properties", Object{{"type", only({"text"}, "")}, {"text", text("A piece.")}}}};
  const Json roles = only({"system", "developer", "user", "assistant"}, "Who says it.");
  Object fields{{"role", roles},
                {"content", any_of({text("A text."),
                                    array_of(part, 0, static_cast<std::int64_t>(limits.parts))},
                                   "Text.")},
                {"name", text("Who, for templates that tell it.")}};
  for (const char* none : {"refusal", "audio", "function_call"})
    fields.emplace_back(none, only({Json()}, kNotHere));
  for (const char* none : {"annotations", "tool_calls"})
    fields.emplace_back(none, only({Json(), Json::Array()}, kNotHere));
  return Object{{"type", "array"},
                {"minItems", 1},
                {"maxItems", static_cast<std::int64_t>(limits.messages)},
                {"items", Object{{"type", "object"},
                                 {"additionalProperties", false},
                                 {"required", Json::Array{"role", "content"}},
                                 {"properties", std::move(fields)}}},
                {"description", "Objects with role and content."}};
}

Json chat(const ApiLimits& limits) {
  Object fields{
      {"messages", messages(limits)},
      {"max_completion_tokens",
       integer(1, kMost, "Of the answer; what the context leaves if left out.")},
      {"max_tokens", integer(1, kMost, "The older name.")},
      {"logprobs", flag(false, "Of the answer's tokens.")},
      {"top_logprobs", integer(0, limits.logprobs, "And of so many likeliest; with logprobs.")},
      {"continue_final_message", flag(false, "The last message is an answer that goes on.")},
      {"add_generation_prompt", flag(true, "The contrary of continue_final_message.")}};
  for (auto& field : common_fields(limits)) fields.push_back(std::move(field));
  add_habits(fields, true);
  return schema(std::move(fields), "messages");
}

Json media(const char* type, Json schema) {
  return Object{{type, Object{{"schema", std::move(schema)}}}};
}

constexpr const char* kJson = "application/json";

Json answers(const char* what, Json content) {
  return Object{{"200", Object{{"description", what}, {"content", std::move(content)}}},
                {"default", Object{{"description", "An error."},
                                   {"content", media(kJson, answer_ref("Error"))}}}};
}

Object get(const char* summary, Json content) {
  return {{"summary", summary}, {"responses", answers(summary, std::move(content))}};
}
Json get_json(const char* summary, const char* answer) {
  return Object{{"get", get(summary, media(kJson, answer_ref(answer)))}};
}
Json get_text(const char* summary, const char* type) {
  return Object{{"get", get(summary, media(type, Object{{"type", "string"}}))}};
}

Json get_model() {
  Object operation = get("The same by its name; another is 404", media(kJson, answer_ref("Model")));
  operation.emplace_back("parameters", Json::Array{Object{{"name", "model"},
                                                          {"in", "path"},
                                                          {"required", true},
                                                          {"schema", Object{{"type", "string"}}}}});
  return Object{{"get", std::move(operation)}};
}

// `chunk`: of the stream that it may be answered with.
Json post(const char* summary, Json body, const char* answer, const char* chunk = nullptr) {
  Object content{{kJson, Object{{"schema", answer_ref(answer)}}}};
  if (chunk)
    content.emplace_back(
        "text/event-stream",
        Object{
            {"schema", Object{{"type", "string"},
                              {"description", join("Events `data: CHUNK`, each a ", chunk,
                                                   ", the last one `data: [DONE]`; an error is an "
                                                   "Error, and the last.")}}}});
  return Object{{"post", Object{{"summary", summary},
                                {"requestBody", Object{{"required", true},
                                                       {"content", media(kJson, std::move(body))}}},
                                {"responses", answers(summary, std::move(content))}}}};
}

std::string escaped(const std::string& plain) {
  std::string html;
  for (const char c : plain)
    html += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '"' ? "&quot;" : std::string(1, c);
  return html;
}

// What its type may be, and between which limits.
struct Kinds {
  std::string types, range;
};
Kinds kinds_of(const Json& field) {
  Kinds kinds;
  if (const Json* all = field.find("anyOf")) {
    for (const Json& one : all->array("")) {
      const Kinds more = kinds_of(one);
      kinds.types += (kinds.types.empty() ? "" : ", ") + more.types;
      kinds.range += more.range;
    }
    return kinds;
  }
  if (const Json* legal = field.find("enum")) {
    for (const Json& one : legal->array(""))
      kinds.range += (kinds.range.empty() ? "" : ", ") + escaped(to_text(one));
    return {"only", kinds.range};
  }
  for (const char* key : {"minimum", "exclusiveMinimum", "maximum", "minLength", "maxLength",
                          "minItems", "maxItems", "maxProperties"})
    if (const Json* value = field.find(key)) kinds.range += join(key, " ", to_text(*value), " ");
  kinds.types = field.at("type", "").text("");
  return kinds;
}

std::string field_row(const std::string& name, const Json& field) {
  const Kinds kinds = kinds_of(field);
  const Json* otherwise = field.find("default");
  return join("<tr><td><code>", escaped(name), "</code><td>", kinds.types, "<td>", kinds.range,
              "<td>", otherwise ? to_text(*otherwise) : "", "<td>",
              escaped(field.at("description", "").text("")), "\n");
}

}  // namespace

Json openapi(const ApiLimits& limits) {
  Object tokenize{{"prompt", text("A text; or give messages.")},
                  {"model", text("Without effect.")}};
  tokenize.emplace_back("messages", messages(limits));
  tokenize.emplace_back("add_special_tokens", flag(true, "The model's start token."));
  tokenize.emplace_back("return_token_strs", flag(false, "How tokens are spelled."));
  Object detokenize{{"tokens", Object{{"type", "array"},
                                      {"items", Object{{"type", "integer"}, {"minimum", 0}}},
                                      {"description", "Ids."}}},
                    {"model", text("Without effect.")}};
  const Json one_of = Json::Array{Object{{"required", Json::Array{"prompt"}}},
                                  Object{{"required", Json::Array{"messages"}}}};
  Json paths = Object{
      {"/health", get_json("200 if it answers; needs no key", "Status")},
      {"/ready", get_json("200 if it takes requests", "Status")},
      {"/metrics", get_text("Prometheus' text format", "text/plain")},
      {"/version", get_json("The program's version", "Version")},
      {"/v1/models", get_json("The served model", "Models")},
      {"/v1/models/{model}", get_model()},
      {"/", get_text("The chat page; needs no key", "text/html")},
      {"/docs", get_text("This API, for people", "text/html")},
      {"/props", get_json("The model, its context and defaults, and memory", "Props")},
      {"/v1/completions",
       post("Goes on from a text", completion(limits), "Completion", "CompletionChunk")},
      {"/v1/chat/completions",
       post("Answers a conversation", chat(limits), "ChatCompletion", "ChatCompletionChunk")},
      {"/tokenize", post("A text or a conversation as token ids",
                         Object{{"type", "object"},
                                {"additionalProperties", false},
                                {"oneOf", one_of},
                                {"properties", std::move(tokenize)}},
                         "Tokens")},
      {"/detokenize",
       post("Token ids as a text", schema(std::move(detokenize), "tokens"), "Text")}};
  return Object{
      {"openapi", "3.1.0"},
      {"info", Object{{"title", "Trireme"},
                      {"version", "0.1.0"},
                      {"description",
                       "A field that is null counts as absent. A key is needed if "
                       "the server was started with some."}}},
      {"security", Json::Array{Object{}, Object{{"key", Json::Array{}}}}},
      {"paths", std::move(paths)},
      {"components", Object{{"schemas", answer_schemas()},
                            {"securitySchemes",
                             Object{{"key", Object{{"type", "http"}, {"scheme", "bearer"}}}}}}}};
}

std::string api_page(const Json& described) {
  std::string html =
      "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
      "content=\"width=device-width\"><title>Trireme: API</title><style>body{font:16px/1.5 "
      "system-ui,sans-serif;max-width:60rem;margin:auto;padding:1rem}td,th{text-align:left;"
      "padding:.1rem .6rem;vertical-align:top}:root{color-scheme:light dark}</style>\n"
      "<h1>Trireme: API</h1><p>For programs: <a href=/openapi.json>/openapi.json</a>\n";
  for (const auto& [path, methods] : described.at("paths", "").object(""))
    for (const auto& [method, operation] : methods.object("")) {
      html += join("<h2><code>", method == "get" ? "GET " : "POST ", escaped(path),
                   "</code></h2><p>", escaped(operation.at("summary", "").text("")), "\n");
      const Json* body = operation.find("requestBody");
      if (!body) continue;
      html += "<table><tr><th>field<th>type<th>range<th>default<th>\n";
      const Json& schema = body->at("content", "").at("application/json", "").at("schema", "");
      for (const auto& [name, field] : schema.at("properties", "").object(""))
        html += field_row(name, field);
      html += "</table>\n";
    }
  return html + "</html>\n";
}

}  // namespace trireme
