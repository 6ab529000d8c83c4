// The arguments of the program, cut into subcommand, recipe flags, its own options and names.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "recipes/cli/parse.h"

namespace trireme {

struct Command {
  std::string_view name, usage, help;
  bool available = false;          // in this version
  std::string_view sections = {};  // of recipe keys that it takes as flags
  std::string_view examples = {};  // lines
  std::string_view page = {};      // of the documentation
};

// All subcommands of the contract, in the order of --help.
std::span<const Command> commands();
// Null if there is none of that name.
const Command* known_command(std::string_view name);
// Throws UsageError: unknown (with the nearest), or not part of this version.
const Command& find_command(std::string_view name);

// An option of one subcommand that is no recipe key: --json, --prompt TEXT.
struct Option {
  std::string_view name;        // without dashes
  bool takes_value = false;     // "--name value" or "--name=value"
  std::string_view value = {};  // what stands for the value in help: "FILE"
  std::string_view help = {};   // with the default in brackets
  std::string_view also = {};   // its other names, with blanks between them
  std::string_view key = {};    // it is short for this recipe key, and becomes its flag
  bool list = false;            // given again, the values are joined by commas
};

// As it is typed: -o, --prompt.
std::string dashed(std::string_view name);

struct CommandLine {
  std::string command;             // "" if there is none
  std::vector<std::string> names;  // what is neither flag nor option: the recipe file, ...
  std::vector<Flag> flags;         // for parse_recipe, which also tells of unknown ones
  std::map<std::string, std::string> options;  // given ones of the subcommand's; "" if no value
  bool help = false;                           // --help or -h
  std::string help_topic;                      // --help TOPIC or --help=TOPIC
};

// `arguments` without the program's name. A flag without "=" takes the next argument unless that
// starts with "--"; one of type bool only if it is a truth word. After "--" all are names. Throws
// UsageError for an option of `options` that lacks its value. Does not check the command.
CommandLine split_command_line(const std::vector<std::string>& arguments,
                               const std::vector<Option>& options = {});

// A subcommand's option that is a whole number, or `otherwise` if it is not given. UsageError with
// the range for others.
std::int64_t count_option(const CommandLine& line, const std::string& name, std::int64_t otherwise,
                          std::int64_t least, std::int64_t most);

}  // namespace trireme
