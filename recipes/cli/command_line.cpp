#include "recipes/cli/command_line.h"

#include <algorithm>

#include "framework/base/error.h"
#include "recipes/cli/keys.h"
#include "recipes/cli/values.h"

namespace trireme {
namespace {

bool is_named(const Option& option, const std::string& word) {
  if (word.empty()) return false;
  const std::string names = join(" ", option.name, " ", option.also, " ");
  return names.find(join(" ", word, " ")) != std::string::npos;
}

class Splitter {
 public:
  Splitter(const std::vector<std::string>& arguments, const std::vector<Option>& options)
      : arguments_(arguments), options_(options) {}

  CommandLine run() {
    for (; at_ < arguments_.size(); ++at_) {
      const std::string& argument = arguments_[at_];
      if (names_only_ || !argument.starts_with('-') || argument == "-")
        name(argument);
      else if (argument == "--")
        names_only_ = true;
      else if (argument == "-h")
        help(std::nullopt);
      else
        flag(argument.substr(argument.starts_with("--") ? 2 : 1));
    }
    return std::move(line_);
  }

 private:
  void name(const std::string& text) {
    if (line_.command.empty())
      line_.command = text;
    else
      line_.names.push_back(text);
  }

  // The next argument, taken, if there is one that is no flag.
  std::optional<std::string> next() {
    if (at_ + 1 >= arguments_.size() || arguments_[at_ + 1].starts_with("--")) return std::nullopt;
    return arguments_[++at_];
  }

  void help(std::optional<std::string> topic) {
    line_.help = true;
    line_.help_topic = topic ? *topic : next().value_or("");
  }

  void flag(const std::string& text) {
    auto equals = text.find('=');
    std::string word = text.substr(0, equals);
    std::optional<std::string> value;
    if (equals != std::string::npos) value = text.substr(equals + 1);
    auto option = std::find_if(options_.begin(), options_.end(),
                               [&](const Option& known) { return is_named(known, word); });
    if (word == "help")
      help(value);
    else if (option != options_.end())
      own(*option, value);
    else
      line_.flags.push_back({word, value ? value : next_for(find_key(word))});
  }

  void own(const Option& option, std::optional<std::string> value) {
    if (option.takes_value && !value) value = next();
    if (option.takes_value && !value)
      throw UsageError(
          join(dashed(option.name), " needs a value",
               at_ + 1 < arguments_.size()
                   ? join("; one that begins with -- is given as ", dashed(option.name), "=VALUE")
                   : ""));
    if (!option.takes_value && value)
      throw UsageError(join(dashed(option.name), " takes no value, got ", *value));
    if (!option.key.empty()) return line_.flags.push_back({std::string(option.key), value});
    const auto [at, fresh] = line_.options.try_emplace(std::string(option.name));
    at->second = join(fresh || !option.list ? "" : at->second + ",", value.value_or(""));
  }

  std::optional<std::string> next_for(const Key* key) {
    bool boolean = key && key->type == KeyType::kBool;
    if (boolean && (at_ + 1 >= arguments_.size() || !parse_bool(arguments_[at_ + 1])))
      return std::nullopt;
    return next();
  }

  const std::vector<std::string>& arguments_;
  const std::vector<Option>& options_;
  std::size_t at_ = 0;
  bool names_only_ = false;
  CommandLine line_;
};

}  // namespace

std::string dashed(std::string_view name) { return join(name.size() == 1 ? "-" : "--", name); }

CommandLine split_command_line(const std::vector<std::string>& arguments,
                               const std::vector<Option>& options) {
  return Splitter(arguments, options).run();
}

std::int64_t count_option(const CommandLine& line, const std::string& name, std::int64_t otherwise,
                          std::int64_t least, std::int64_t most) {
  const auto given = line.options.find(name);
  if (given == line.options.end()) return otherwise;
  const auto value = parse_count(given->second);
  if (!value || *value < least || *value > most)
    throw UsageError(join("--", name, " = ", given->second, ": expected a whole number from ",
                          least, " to ", most));
  return *value;
}

}  // namespace trireme
