// Help, made from the key table and the list of subcommands. Plain text, lines of at most 100
// characters.
#pragma once

#include <string>
#include <string_view>

#include "recipes/cli/command_line.h"

namespace trireme {

// Without a topic: the subcommands and the 25 common keys. A section's name: all of its keys. A
// full key name: that key. Another word: all keys with it in name, values or text. Throws
// UsageError with the nearest section or key if there are none.
std::string help_text(std::string_view topic = {});

// An option of a subcommand: its name, and beside it in a column its sentence.
std::string option_help(const Option& option);

}  // namespace trireme
