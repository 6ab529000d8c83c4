#include "framework/data/conversation.h"

#include <algorithm>
#include <ctime>
#include <iomanip>
#include <locale>
#include <sstream>

#include "framework/base/error.h"
#include "framework/data/records.h"

namespace trireme {

namespace {

std::string fixed_time(const std::string& format) {
  std::tm time{};  // Friday, 26 July 2024, noon
  time.tm_year = 124;
  time.tm_mon = 6;
  time.tm_mday = 26;
  time.tm_hour = 12;
  time.tm_wday = 5;
  time.tm_yday = 207;
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << std::put_time(&time, format.c_str());
  return text.str();
}

bool is_answer(const Json& message) {
  return message.at("role", "message").text("\"role\"") == "assistant";
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

// A template that knows texts only may pass over lists of parts without a word.
void expect_parts(const std::string& rendered, const Json::Array& messages) {
  for (const Json& message : messages) {
    const Json* content = message.find("content");
    if (!content || !content->is(Json::Kind::kArray)) continue;
    for (const std::string& part : said_by(message))
      check(rendered.find(trimmed(part)) != std::string::npos,
            "the chat template does not write what the parts of a content say; give \"content\" as "
            "one text");
  }
}

constexpr char kForTools[] = "tool_use";  // as `transformers` calls it

const std::string* named_template(const Tokenizer& tokenizer, std::string_view name) {
  for (const auto& [called, source] : tokenizer.settings().chat_templates)
    if (called == name) return &source;
  return nullptr;
}

const std::string& default_template(const Tokenizer& tokenizer) {
  const std::string* const found = named_template(tokenizer, "default");
  check(found != nullptr, "the tokenizer \"", tokenizer.name(),
        "\" has no chat template, which conversations need; use for data.tokenizer a folder whose "
        "tokenizer_config.json has a chat_template, or that has a chat_template.jinja");
  return *found;
}

}  // namespace

std::string ConversationEncoder::key_of(const Tokenizer& tokenizer) {
  std::string key = default_template(tokenizer);
  if (const std::string* const tools = named_template(tokenizer, kForTools))
    key += join("\n", kForTools, "\n", *tools);
  const TokenizerSettings& settings = tokenizer.settings();
  for (const auto& id : {settings.bos, settings.eos, settings.pad, settings.unk})
    key += join("\n", id.value_or(-1));
  for (std::int64_t id = 0; id < tokenizer.vocabulary(); ++id)
    if (tokenizer.is_special(id)) key += join(" ", id);
  return key;
}

ConversationEncoder::ConversationEncoder(const Tokenizer& tokenizer, LossOn loss_on)
    : tokenizer_(tokenizer),
      template_(default_template(tokenizer), "chat template"),
      loss_on_(loss_on) {
  if (const std::string* const source = named_template(tokenizer, kForTools)) {
    try {
      tool_template_.emplace(*source, join("chat template ", kForTools));
    } catch (const Error& error) {
      tool_problem_ = error.what();  // for those who have tools
    }
  }
  const TokenizerSettings& settings = tokenizer.settings();
  const std::pair<const char*, std::optional<std::int32_t>> named[] = {{"bos_token", settings.bos},
                                                                       {"eos_token", settings.eos},
                                                                       {"pad_token", settings.pad},
                                                                       {"unk_token", settings.unk}};
  for (const auto& [name, id] : named)
    if (id) constants_.push_back({name, tokenizer.token_of(*id), true});
  constants_.push_back({"documents", Json(), true});
  for (std::int64_t id = 0; id < tokenizer.vocabulary(); ++id)
    if (tokenizer.is_special(id) && !tokenizer.token_of(id).empty())
      controls_.push_back(tokenizer.token_of(id));
}

const ChatTemplate& ConversationEncoder::template_for(const Json& tools) const {
  if (tools.is_null()) return template_;
  check(tool_problem_.empty(), tool_problem_);
  return tool_template_ ? *tool_template_ : template_;
}

ConversationEncoder::Text ConversationEncoder::render(const Json& messages, const Json& tools,
                                                      std::size_t count, bool prompt) const {
  const auto& all = messages.array("messages");
  std::vector<TemplateVariable> variables = constants_;
  variables.push_back(
      {"messages", Json::Array(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count))});
  variables.push_back({"tools", tools});
  variables.push_back({"add_generation_prompt", prompt, true});
  Text text;
  for (const TemplatePiece& piece : template_for(tools).render(variables, fixed_time)) {
    text.bytes += piece.text;
    text.strangers.append(piece.text.size(), piece.control ? '\0' : '\1');
  }
  return text;
}

// The end of the first control token that the template wrote behind what `message` says; npos if
// that does not stand before it.
std::size_t ConversationEncoder::end_token_behind(const Text& text, std::size_t begin,
                                                  const Json& message) const {
  std::size_t first = std::string::npos, end = std::string::npos;
  for (const std::string& control : controls_)
    for (std::size_t at = begin; (at = text.bytes.find(control, at)) < first; ++at)
      if (text.strangers.substr(at, control.size()).find('\1') == std::string::npos) {
        first = at;
        end = at + control.size();
      }
  if (end == std::string::npos) return end;
  const std::string said = text.bytes.substr(begin, first - begin);
  for (const std::string& part : said_by(message))
    if (said.find(trimmed(part)) == std::string::npos) return std::string::npos;
  return end;
}

ConversationEncoder::Span ConversationEncoder::answer(const Text& text, const Json& messages,
                                                      const Json& tools, std::size_t index) const {
  const std::string before = render(messages, tools, index, true).bytes;
  const std::string after = render(messages, tools, index + 1, false).bytes;
  const bool begins = text.bytes.starts_with(before);
  if (begins && after.size() > before.size() && text.bytes.starts_with(after))
    return {before.size(), after.size()};
  const Json& message = messages.array("messages")[index];
  const std::size_t end =
      begins ? end_token_behind(text, before.size(), message) : std::string::npos;
  check(end != std::string::npos, "where the answer of message ", index + 1,
        " lies cannot be told: the chat template writes the messages before it in another way when "
        "it follows; data.loss_on = all trains on every token");
  return {before.size(), end};
}

std::vector<ConversationEncoder::Span> ConversationEncoder::answers(const Text& text,
                                                                    const Json& messages,
                                                                    const Json& tools) const {
  std::vector<Span> spans;
  const auto& all = messages.array("messages");
  for (std::size_t i = all.size(); i-- > 0;) {
    if (!is_answer(all[i])) continue;
    spans.push_back(answer(text, messages, tools, i));
    if (loss_on_ == LossOn::kLast) break;
  }
  std::reverse(spans.begin(), spans.end());
  return spans;
}

void ConversationEncoder::append(const Text& text, Span part, bool trained, Encoder& encoder,
                                 DocumentTokens& tokens) const {
  if (part.begin == part.end) return;
  const bool after_control = !tokens.ids.empty() && tokenizer_.is_special(tokens.ids.back());
  const std::size_t bytes = part.end - part.begin;
  encoder.encode(std::string_view(text.bytes).substr(part.begin, bytes), tokens.ids,
                 {.continues = !tokens.ids.empty() && !after_control,
                  .strangers = std::string_view(text.strangers).substr(part.begin, bytes)});
  tokens.trained.resize(tokens.ids.size(), trained ? 1 : 0);
}

// What stands behind the last control token of an answer is no part of it.
void ConversationEncoder::forget_tail(DocumentTokens& tokens, std::size_t from) const {
  std::size_t end = tokens.ids.size();
  while (end > from && !tokenizer_.is_special(tokens.ids[end - 1]) &&
         is_blank(tokenizer_.piece(tokens.ids[end - 1], false).text))
    --end;
  if (end > from && tokenizer_.is_special(tokens.ids[end - 1]))
    std::fill(tokens.trained.begin() + static_cast<std::ptrdiff_t>(end), tokens.trained.end(),
              std::uint8_t{0});
}

void ConversationEncoder::end_document(DocumentTokens& tokens, bool answered) const {
  const auto eos = tokenizer_.settings().eos;
  auto last = tokens.ids.rbegin();
  while (last != tokens.ids.rend() && !tokenizer_.is_special(*last) &&
         is_blank(tokenizer_.piece(*last, false).text))
    ++last;
  const bool ended = last != tokens.ids.rend() && tokenizer_.is_special(*last);
  if (!eos || ended) return;
  tokens.ids.push_back(*eos);
  tokens.trained.push_back(answered ? 1 : 0);
}

DocumentTokens ConversationEncoder::encode(const Json& messages, const Json& tools,
                                           Encoder& encoder) const {
  const auto& all = messages.array("messages");
  const Text text = render(messages, tools, all.size(), false);
  expect_parts(text.bytes, all);
  DocumentTokens tokens;
  std::size_t done = 0;
  if (loss_on_ != LossOn::kAll)
    for (const Span& span : answers(text, messages, tools)) {
      append(text, {done, span.begin}, false, encoder, tokens);
      const std::size_t first = tokens.ids.size();
      append(text, span, true, encoder, tokens);
      forget_tail(tokens, first);
      done = span.end;
    }
  append(text, {done, text.bytes.size()}, loss_on_ == LossOn::kAll, encoder, tokens);
  end_document(tokens, loss_on_ == LossOn::kAll || is_answer(all.back()));
  return tokens;
}

std::vector<std::int32_t> ConversationEncoder::prompt(const Json& messages, const Json& tools,
                                                      Encoder& encoder) const {
  const Text text = render(messages, tools, messages.array("messages").size(), true);
  DocumentTokens tokens;
  append(text, {0, text.bytes.size()}, false, encoder, tokens);
  return std::move(tokens.ids);
}

}  // namespace trireme
