#include "recipes/api/api_tokens.h"

#include "framework/data/tokenizers/utf8.h"
#include "recipes/api/api_answer.h"
#include "recipes/api/fields.h"

namespace trireme {

namespace {

constexpr JsonLimits kJsonLimits{.bytes = 64 << 20, .values = 200'000, .depth = 64};

}  // namespace

Json api_body(const std::string& text) {
  try {
    return parse_json(text, "body", kJsonLimits);
  } catch (const Error& error) {
    throw ApiError(400, error.what(), {}, "invalid_json");
  }
}

Json api_tokenize(const Json& body, const ServedModel& model, const ApiLimits& limits,
                  Encoder& encoder) {
  Fields fields(body);
  fields.text("model");
  const bool start = fields.maybe_flag("add_special_tokens").value_or(true);
  const bool spelled = fields.flag("return_token_strs");
  const Json* messages = fields.take("messages");
  const auto prompt = fields.text("prompt");
  fields.end();
  if ((messages == nullptr) == !prompt) fields.refuse("prompt", "either a prompt, or messages");
  const std::vector<std::int32_t> ids = messages ? chat_tokens(*messages, model, limits, encoder)
                                                 : text_tokens(*prompt, start, model, encoder);
  Json::Array tokens, texts;
  for (const std::int32_t id : ids) tokens.emplace_back(std::int64_t{id});
  if (spelled)
    for (const std::int32_t id : ids) texts.emplace_back(token_text(model.tokenizer, id));
  return Json::Object{{"count", std::ssize(ids)},
                      {"max_model_len", model.context},
                      {"tokens", std::move(tokens)},
                      {"token_strs", spelled ? Json(std::move(texts)) : Json()}};
}

Json api_detokenize(const Json& body, const ServedModel& model) {
  Fields fields(body);
  fields.text("model");
  const auto ids = fields.ids("tokens", 200'000, model.tokenizer.vocabulary());
  if (!fields.take("tokens")) fields.refuse("tokens", "an array of token ids is expected");
  fields.end();
  return Json::Object{{"prompt", to_utf8(model.tokenizer.decode(ids))}};
}

}  // namespace trireme
