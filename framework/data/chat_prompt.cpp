#include "framework/data/chat_prompt.h"

#include "framework/base/error.h"
#include "framework/data/conversation.h"

namespace trireme {

namespace {

Json said(const char* role, const std::string& content) {
  return Json::Object{{"role", role}, {"content", content}};
}

}  // namespace

bool has_chat_template(const Tokenizer& tokenizer) {
  for (const auto& [name, source] : tokenizer.settings().chat_templates)
    if (name == "default") return true;
  return false;
}

std::vector<std::int32_t> chat_prompt(const Tokenizer& tokenizer, const std::string& message) {
  const auto encoder = tokenizer.encoder();
  return ConversationEncoder(tokenizer, LossOn::kAll)
      .prompt(Json::Array{said("user", message)}, Json(), *encoder);
}

std::optional<std::int32_t> answer_end(const Tokenizer& tokenizer) {
  if (!has_chat_template(tokenizer)) return std::nullopt;
  try {
    const auto encoder = tokenizer.encoder();
    const DocumentTokens tokens =
        ConversationEncoder(tokenizer, LossOn::kAssistant)
            .encode(Json::Array{said("user", "a"), said("assistant", "b")}, Json(), *encoder);
    for (std::size_t i = tokens.ids.size(); i-- > 0;)
      if (tokens.trained[i] != 0)
        return tokenizer.is_special(tokens.ids[i]) ? std::optional(tokens.ids[i]) : std::nullopt;
  } catch (const Error&) {
    // A template that wants other messages, or that is none: whoever trains or asks is told.
  }
  return std::nullopt;
}

std::vector<std::int32_t> learned_ends(const Tokenizer& tokenizer) {
  std::vector<std::int32_t> ends;
  if (const auto eos = tokenizer.settings().eos) ends.push_back(*eos);
  if (const auto end = answer_end(tokenizer); end && (ends.empty() || ends[0] != *end))
    ends.push_back(*end);
  return ends;
}

}  // namespace trireme
