#include "recipes/chat/chat_commands.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "framework/base/error.h"
#include "recipes/chat/answer_settings.h"
#include "recipes/cli/nearest.h"
#include "recipes/cli/values.h"

namespace trireme {

namespace {

constexpr std::array<ChatCommand, 14> kCommands{{
    {"help", "", "this; so does /?"},
    {"new", "", "forget the conversation; the system message and the settings stay"},
    {"system", "[TEXT]", "the system message from now on; none without TEXT"},
    {"set", "KEY VALUE", "a setting: see /show"},
    {"show", "", "settings, system message, how full the context is"},
    {"retry", "[same]", "answer the last message again with the next seed, or with the same"},
    {"undo", "", "take the last message and its answer back"},
    {"edit", "[TEXT]", "change the last message in $EDITOR, or to TEXT, and answer that"},
    {"read", "FILE", "put the text of a file before the next message"},
    {"save", "FILE", "write the conversation as JSON"},
    {"load", "FILE", "go on with a saved conversation"},
    {"tokens", "TEXT", "the tokens of a text"},
    {"quit", "", "end; so do Ctrl-D, and Ctrl-C twice"},
    {"exit", "", "the same"},
}};

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

}  // namespace

std::span<const ChatCommand> chat_commands() { return kCommands; }

std::optional<ChatWords> chat_words(std::string_view message) {
  if (trimmed(message) == "/?") return ChatWords{"help", ""};  // as others have it
  if (message.size() < 2 || message[0] != '/' ||
      std::isalpha(static_cast<unsigned char>(message[1])) == 0)
    return std::nullopt;
  const std::size_t end = std::min(message.find_first_of(" \t\n"), message.size());
  return ChatWords{std::string(message.substr(1, end - 1)),
                   std::string(trimmed(message.substr(end)))};
}

bool is_chat_command(std::string_view name) {
  return std::any_of(kCommands.begin(), kCommands.end(),
                     [&](const ChatCommand& c) { return c.name == name; });
}

std::string unknown_command(const std::string& name) {
  std::vector<std::string> names, slashed;
  for (const ChatCommand& c : kCommands) {
    names.emplace_back(c.name);
    slashed.push_back("/" + names.back());
  }
  const std::string near = nearest_word(name, names);
  return join("there is no command /", name,
              near.empty() ? "; commands: " + one_of(slashed) : "; nearest: /" + near);
}

std::string chat_help() {
  std::string text;
  for (const ChatCommand& c : kCommands) {
    std::string usage = join("  /", c.name, c.arguments.empty() ? "" : " ", c.arguments);
    usage.resize(std::max<std::size_t>(20, usage.size() + 1), ' ');
    text += join(usage, c.help, "\n");
  }
  text += "settings (/set, /show):";
  for (std::size_t i = 0; i < setting_names().size(); ++i)
    text += (i % 5 == 0 ? "\n  " : ", ") + setting_names()[i];
  text += "\n";
  return text +
         "A line that ends with \\ goes on with the next one; \"\"\" begins and ends a message\n"
         "of several lines, in which nothing is a command. What is pasted is one message.\n"
         "Ctrl-C stops an answer and keeps what was said.\n";
}

}  // namespace trireme
