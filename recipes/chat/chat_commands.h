// The commands of a chat: what begins with a slash. Pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

struct ChatCommand {
  std::string_view name, arguments, help;  // name without the slash
};
// In the order of /help.
std::span<const ChatCommand> chat_commands();

struct ChatWords {
  std::string name;  // without the slash
  std::string rest;  // behind it, without blanks around
};
// Nothing unless a slash and a letter begin the message.
std::optional<ChatWords> chat_words(std::string_view message);

bool is_chat_command(std::string_view name);
// "there is no command /sytem; nearest: /system", or all of them.
std::string unknown_command(const std::string& name);
std::string chat_help();

}  // namespace trireme
