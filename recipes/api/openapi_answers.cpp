#include "recipes/api/openapi_answers.h"

#include <utility>

namespace trireme {

namespace {

using Object = Json::Object;

Json kind(const char* type) { return Object{{"type", type}}; }
Json or_null(const char* type) { return Object{{"type", Json::Array{type, "null"}}}; }
Json only(const char* word) { return Object{{"enum", Json::Array{word}}}; }
Json many(Json items) { return Object{{"type", "array"}, {"items", std::move(items)}}; }
Json count() { return Object{{"type", "integer"}, {"minimum", 0}}; }
Json nothing() { return kind("null"); }
Json ref_or_null(const char* name) {
  return Object{{"anyOf", Json::Array{answer_ref(name), nothing()}}};
}
// Of numbers by names that are data.
Json numbers_by_name() {
  return Object{{"type", "object"}, {"additionalProperties", kind("number")}};
}

// All members are always there, but for those named in `may_miss`.
Json shape(Object members, const std::vector<std::string>& may_miss = {}) {
  Json::Array required;
  for (const auto& [name, schema] : members) {
    bool always = true;
    for (const std::string& one : may_miss) always = always && one != name;
    if (always) required.emplace_back(name);
  }
  return Object{{"type", "object"},
                {"additionalProperties", false},
                {"required", std::move(required)},
                {"properties", std::move(members)}};
}

Json finish_reason(bool may_go_on) {
  Json::Array words{"stop", "length"};
  if (may_go_on) words.emplace_back();
  return Object{{"enum", std::move(words)}};
}

// `content`: "text", "message" or "delta".
Json choice(const char* content, Json schema, const char* logprobs, bool streams) {
  return shape({{"index", count()},
                {content, std::move(schema)},
                {"logprobs", ref_or_null(logprobs)},
                {"finish_reason", finish_reason(streams)},
                {"stop_reason", Object{{"type", Json::Array{"string", "integer", "null"}}}}});
}

// An answer, or a chunk of a stream, whose usage is there if it is asked for, and null but in the
// last one.
Json answer(const char* object, Json choice, bool streams) {
  Object members{{"id", kind("string")},
                 {"object", only(object)},
                 {"created", count()},
                 {"model", kind("string")},
                 {"choices", many(std::move(choice))},
                 {"usage", streams ? ref_or_null("Usage") : answer_ref("Usage")}};
  return streams ? shape(std::move(members), {"usage"}) : shape(std::move(members));
}

Object of_tokens() {
  Object token{{"token", kind("string")}, {"logprob", kind("number")}, {"bytes", many(count())}};
  const Json plain = shape(token);
  token.emplace_back("top_logprobs", many(plain));
  return {
      {"ChatLogprobs", shape({{"content", many(shape(std::move(token)))}})},
      {"CompletionLogprobs",
       shape({{"tokens", many(kind("string"))},
              {"token_logprobs", many(or_null("number"))},
              {"top_logprobs", many(Object{{"anyOf", Json::Array{numbers_by_name(), nothing()}}})},
              {"text_offset", many(count())}})}};
}

Object of_generation() {
  const Json said = shape({{"role", only("assistant")}, {"content", kind("string")}});
  const Json delta =
      shape({{"role", only("assistant")}, {"content", kind("string")}}, {"role", "content"});
  const Json cached = shape({{"cached_tokens", count()}});
  return {
      {"Usage", shape({{"prompt_tokens", count()},
                       {"completion_tokens", count()},
                       {"total_tokens", count()},
                       {"prompt_tokens_details", cached}})},
      {"Completion", answer("text_completion",
                            choice("text", kind("string"), "CompletionLogprobs", false), false)},
      {"CompletionChunk",
       answer("text_completion", choice("text", kind("string"), "CompletionLogprobs", true), true)},
      {"ChatCompletion",
       answer("chat.completion", choice("message", said, "ChatLogprobs", false), false)},
      {"ChatCompletionChunk",
       answer("chat.completion.chunk", choice("delta", delta, "ChatLogprobs", true), true)}};
}

Json props() {
  const Json kinds = Object{{"type", "object"}, {"additionalProperties", count()}};
  const Json cache = shape({{"page_tokens", count()},
                            {"tokens", count()},
                            {"used_tokens", count()},
                            {"bytes", count()},
                            {"used_bytes", count()}});
  const Json memory =
      shape({{"ranks", count()},
             {"bytes", shape({{"device", kinds}, {"host", kinds}, {"disk", kinds}})},
             {"cache", cache},
             {"limit", or_null("integer")},
             {"limit_source", kind("string")},
             {"free", or_null("integer")}});
  return shape({{"model", kind("string")},
                {"max_model_len", count()},
                {"chat_template", kind("boolean")},
                {"sampling_defaults", numbers_by_name()},
                {"memory", memory}});
}

Object of_server() {
  return {{"Status", shape({{"status", only("ok")}})},
          {"Version", shape({{"version", kind("string")}})},
          {"Props", props()},
          {"Model", shape({{"id", kind("string")},
                           {"object", only("model")},
                           {"created", count()},
                           {"owned_by", kind("string")},
                           {"root", kind("string")},
                           {"parent", nothing()},
                           {"max_model_len", count()}})},
          {"Models", shape({{"object", only("list")}, {"data", many(answer_ref("Model"))}})},
          {"Tokens", shape({{"count", count()},
                            {"max_model_len", count()},
                            {"tokens", many(count())},
                            {"token_strs", Object{{"type", Json::Array{"array", "null"}},
                                                  {"items", kind("string")}}}})},
          {"Text", shape({{"prompt", kind("string")}})},
          {"Error", shape({{"error", shape({{"message", kind("string")},
                                            {"type", kind("string")},
                                            {"param", or_null("string")},
                                            {"code", or_null("string")}})}})}};
}

}  // namespace

Json answer_ref(const std::string& name) {
  return Object{{"$ref", "#/components/schemas/" + name}};
}

Json answer_schemas() {
  Object all = of_server();
  for (Object more : {of_tokens(), of_generation()})
    for (auto& schema : more) all.push_back(std::move(schema));
  return all;
}

}  // namespace trireme
