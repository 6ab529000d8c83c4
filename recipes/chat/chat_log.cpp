#include "recipes/chat/chat_log.h"

#include "framework/base/error.h"

namespace trireme {

namespace {

Json said(const char* role, const std::string& content) {
  return Json::Object{{"role", role}, {"content", content}};
}

}  // namespace

void ChatLog::answer(const std::string& text) {
  turns_.back().assistant = text;
  turns_.back().answered = true;
}

Json ChatLog::messages() const {
  Json::Array all;
  if (!system.empty()) all.push_back(said("system", system));
  for (const ChatTurn& turn : turns_) {
    all.push_back(said("user", turn.user));
    if (turn.answered) all.push_back(said("assistant", turn.assistant));
  }
  return all;
}

std::string ChatLog::text() const {
  std::string all;
  for (const ChatTurn& turn : turns_) all += turn.user + turn.assistant;
  return all;
}

void ChatLog::take(const Json& messages, const std::string& from) {
  ChatLog read;
  std::size_t index = 0;
  for (const Json& message : messages.array(from + ": messages")) {
    const std::string place = join(from, ": messages[", index, "]");
    const std::string& role = message.at("role", place).text(place + ".role");
    const std::string& content = message.at("content", place).text(place + ".content");
    const bool asks = read.empty() || read.turns().back().answered;
    if (role == "system" && index == 0)
      read.system = content;
    else if (role == "user" && asks)
      read.ask(content);
    else if (role == "assistant" && !asks)
      read.answer(content);
    else
      fail(place, ".role: ", role, " cannot stand here: a system message may be the first, then ",
           "user and assistant take turns");
    ++index;
  }
  *this = std::move(read);
}

}  // namespace trireme
