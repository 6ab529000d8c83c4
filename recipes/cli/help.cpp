#include "recipes/cli/help.h"

#include <algorithm>
#include <cctype>

#include "framework/base/error.h"
#include "recipes/cli/command_line.h"
#include "recipes/cli/keys.h"
#include "recipes/cli/nearest.h"
#include "recipes/cli/values.h"

namespace trireme {
namespace {

constexpr std::size_t kWidth = 100;

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string lower(std::string_view text) {
  std::string result;
  for (char c : text) result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// `text` in lines, each after `indent` blanks.
std::string wrapped(const std::string& text, std::size_t indent) {
  std::string result, line(indent, ' ');
  std::size_t begin = 0;
  while (begin < text.size()) {
    auto end = std::min(text.find(' ', begin), text.size());
    std::string word = text.substr(begin, end - begin);
    if (line.size() > indent && line.size() + 1 + word.size() > kWidth) {
      result += line + "\n";
      line.assign(indent, ' ');
    }
    line += (line.size() > indent ? " " : "") + word;
    begin = end + 1;
  }
  return result + line + "\n";
}

std::string shown_default(const Key& key) {
  return key.initial.empty() ? "none" : std::string(key.initial);
}

// The values of today; whole() tells the coming ones, too.
std::string values_now(const Key& key) {
  if (key.supported.empty()) return range_of(key);
  std::string text;
  for (auto value : key.supported) text += join(text.empty() ? "" : ", ", value);
  return text;
}

// `text` in a column beside `flag`, or below it where that is longer.
std::string beside(const std::string& flag, std::size_t column, const std::string& text) {
  const std::string told = wrapped(text, column);
  if (flag.size() + 1 > column) return flag + "\n" + told;
  return padded(flag, column) + told.substr(column);
}

// What --help shows of a common key: the flag with its default, and beside it in a column its
// sentence, unit and range.
std::string brief(const Key& key) {
  constexpr std::size_t kColumn = 32;
  std::string value = key.initial.empty() ? "PATH" : std::string(key.initial);
  std::string flag = padded(join("  --", key.full_name(), "=", value), kColumn);
  std::string facts = key.unit.empty() ? values_now(key) : join(key.unit, ", ", values_now(key));
  return flag + wrapped(join(key.help, " [", facts, "]"), kColumn).substr(kColumn);
}

// Everything about a key.
std::string whole(const Key& key) {
  std::string facts = "default " + shown_default(key);
  if (!key.unit.empty()) facts += "; unit " + std::string(key.unit);
  facts += "; values " + range_of(key);
  if (!key.supported.empty()) {
    std::vector<std::string> words;
    for (auto word : key.supported) words.push_back(word.empty() ? "none" : std::string(word));
    facts += "; in this version " + one_of(words);
  }
  return "  --" + key.full_name() + "\n" + wrapped(std::string(key.help), 6) + wrapped(facts, 6) +
         "      environment " + key.environment() + "\n";
}

std::string overview() {
  std::string text =
      "trireme: trains Transformers over data, tensor and pipeline ranks.\n\n"
      "usage: trireme SUBCOMMAND [...]\n\n";
  for (const Command& command : commands())
    if (command.available)
      text += beside("  " + std::string(command.usage), 46, std::string(command.help));
  text += "\nCommon keys of a recipe, with their defaults:\n\n";
  for (const Key& key : keys())
    if (key.common) text += brief(key);
  return text;
}

std::string sections_line() {
  std::string text;
  for (const KeySection& section : sections())
    text += (text.empty() ? "" : ", ") + std::string(section.name);
  return text;
}

bool mentions(const Key& key, const std::string& word) {
  std::string text = key.full_name() + " " + std::string(key.help) + " " + key.environment();
  for (auto value : key.values) text.append(" ").append(value);
  return lower(text).find(word) != std::string::npos;
}

std::string search(const std::string& word) {
  std::string text;
  for (const Key& key : keys())
    if (key.full_name() == word) return whole(key);
  for (const Key& key : keys())
    if (mentions(key, word)) text += whole(key);
  return text;
}

}  // namespace

std::string option_help(const Option& option) {
  constexpr std::size_t kColumn = 32;
  const std::string_view other = option.also.substr(0, option.also.find(' '));
  std::string flag = join("  ", other.size() == 1 ? join(dashed(other), ", ") : std::string(),
                          dashed(option.name), option.takes_value ? " " : "", option.value);
  return beside(flag, kColumn, std::string(option.help));
}

std::string help_text(std::string_view topic) {
  if (topic.empty())
    return overview() + "\n" +
           wrapped(
               "A flag wins over the environment (TRIREME_SECTION_KEY), that over the recipe "
               "file, that over the default.",
               0) +
           wrapped("--help SECTION shows all keys of a section: " + sections_line() + ".", 0) +
           "--help WORD searches names and text. trireme SUBCOMMAND --help tells its options.\n"
           "--json prints results as JSON where a person gets a table.\n";
  std::string word = lower(topic);
  for (const KeySection& section : sections()) {
    if (section.name != word) continue;
    std::string text = std::string(section.name) + ": " + std::string(section.help) + "\n\n";
    for (const Key& key : keys())
      if (key.section == word) text += whole(key);
    return text;
  }
  std::string found = search(word);
  if (!found.empty()) return found;
  std::vector<std::string> names;
  for (const KeySection& section : sections()) names.emplace_back(section.name);
  std::string near = nearest_word(word, names);
  if (near.empty()) near = nearest_key(word);
  throw UsageError(join("help: no key speaks of \"", topic, "\"",
                        near.empty() ? "; sections: " + sections_line() : "; nearest: " + near));
}

}  // namespace trireme
