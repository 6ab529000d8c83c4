// The options of the subcommands that are no recipe keys: one table for who reads a command line
// and for `trireme COMMAND --help`.
#pragma once

#include <string>
#include <vector>

#include "recipes/cli/command_line.h"

namespace trireme {

// In the order of help; --json is the last.
std::vector<Option> options_of(const std::string& command);

// The line, unless a flag is no key and nearly an option of its subcommand: UsageError names that.
CommandLine without_slips(CommandLine line, const std::vector<Option>& options);

// What `trireme [COMMAND] --help [TOPIC]` says: a command's options without a topic, or where the
// topic is a command; else help_text(). `train` alone has the keys of recipes. UsageError as there.
std::string help_on(const std::string& command, const std::string& topic);

}  // namespace trireme
