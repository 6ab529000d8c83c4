#include "recipes/chat/message_reader.h"

namespace trireme {

namespace {

constexpr std::string_view kQuotes = "\"\"\"";

}  // namespace

std::optional<ChatMessage> MessageReader::line(std::string_view text) {
  if (text.ends_with('\r')) text.remove_suffix(1);
  if (!open() && text.starts_with(kQuotes)) {
    block_ = true;
    text.remove_prefix(kQuotes.size());
    if (text.empty()) return std::nullopt;  // the message begins on the next line
  }
  if (block_) {
    const bool closes = text.ends_with(kQuotes);
    if (closes) text.remove_suffix(kQuotes.size());
    text_ += text;
    if (closes) return take();
    text_ += '\n';
    return std::nullopt;
  }
  const bool goes_on = text.ends_with('\\');
  if (goes_on) text.remove_suffix(1);
  text_ += text;
  if (!goes_on) return take();
  text_ += '\n';
  begun_ = true;
  return std::nullopt;
}

std::optional<ChatMessage> MessageReader::end() {
  if (!open()) return std::nullopt;
  return take();
}

void MessageReader::clear() {
  text_.clear();
  block_ = begun_ = false;
}

std::optional<ChatMessage> MessageReader::take() {
  ChatMessage message{std::move(text_), block_};
  while (block_ && message.text.ends_with('\n')) message.text.pop_back();
  clear();
  return message;
}

}  // namespace trireme
