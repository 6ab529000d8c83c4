#include "recipes/cli/ini_file.h"

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <map>
#include <sstream>

namespace trireme {
namespace {

namespace po = boost::program_options;

constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  auto begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

bool starts_comment(std::string_view text, std::size_t at) {
  if (text[at] != '#' && text[at] != ';') return false;
  return at == 0 || kBlanks.find(text[at - 1]) != std::string_view::npos;
}

std::string_view without_comment(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i)
    if (starts_comment(text, i)) return trimmed(text.substr(0, i));
  return trimmed(text);
}

// A line in a message: any file may be taken for a recipe.
std::string shortened(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  if (text.size() <= kLongest) return std::string(text);
  return std::string(text.substr(0, kLongest)) + "...";
}

// Reads `text`, which starts with a quote. Returns "" or what is wrong.
std::string unquote(std::string_view text, std::string& value) {
  const char quote = text[0];
  std::size_t i = 1;
  for (; i < text.size() && text[i] != quote; ++i) {
    bool escape = quote == '"' && text[i] == '\\' && i + 1 < text.size() &&
                  (text[i + 1] == '"' || text[i + 1] == '\\');
    if (escape) ++i;
    value += text[i];
  }
  if (i >= text.size()) return "the quote is not closed";
  std::string_view rest = text.substr(i + 1);
  if (!without_comment(rest).empty() && !starts_comment(trimmed(rest), 0))
    return "text after the closing quote";
  return "";
}

// One pass over the lines: what Boost is to read, and what it would lose.
class Scanner {
 public:
  void line(int number, std::string_view text) {
    std::string_view content = without_comment(text);
    if (content.empty()) return;
    if (content.front() == '[')
      section(number, content);
    else
      assignment(number, trimmed(text));
  }

  std::string clean() const { return clean_.str(); }
  const std::string& value(int number) const { return values_.at(number); }
  std::vector<IniProblem>& problems() { return problems_; }

 private:
  void section(int number, std::string_view content) {
    auto name =
        trimmed(content.substr(1, content.size() - std::min<std::size_t>(2, content.size())));
    if (content.back() != ']' || name.empty() || name.find_first_of("[]#;=\"' \t") != name.npos)
      problems_.push_back({number, "expected [section], got " + shortened(content)});
    else
      clean_ << '[' << name << "]\n";
  }

  void assignment(int number, std::string_view content) {
    auto equals = content.find('=');
    std::string_view key = trimmed(content.substr(0, equals));
    if (equals == std::string_view::npos || key.empty() ||
        key.find_first_of("\"'#;[] \t") != key.npos) {
      problems_.push_back({number, "expected [section] or key = value, got " + shortened(content)});
      return;
    }
    std::string value, problem;
    std::string_view rest = trimmed(content.substr(equals + 1));
    if (!rest.empty() && (rest.front() == '"' || rest.front() == '\''))
      problem = unquote(rest, value);
    else
      value = without_comment(rest);
    if (problem.empty()) {
      values_[number] = value;
      clean_.exceptions(std::ios_base::badbit);  // no memory is no end of text
      clean_ << key << '=' << number << '\n';
    } else {
      problems_.push_back({number, std::string(key) + ": " + problem});
    }
  }

  std::ostringstream clean_;
  std::map<int, std::string> values_;
  std::vector<IniProblem> problems_;
};

}  // namespace

IniFile read_ini(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (text.find('\0') != std::string_view::npos)
    return {{}, {{1, "not a text file: it holds a zero byte"}}};
  Scanner scanner;
  int number = 0;
  while (!text.empty()) {
    auto end = std::min(text.find('\n'), text.size());
    scanner.line(++number, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  // Boost tells no line numbers and cuts values at '#'. So it reads the line's number as the value,
  // and the scanner keeps the text.
  IniFile file;
  std::istringstream clean(scanner.clean());
  clean.exceptions(std::ios_base::badbit);  // no memory is no end of text
  po::options_description none;
  for (const auto& option : po::parse_config_file(clean, none, true).options) {
    int line = std::stoi(option.value.at(0));
    file.entries.push_back({option.string_key, scanner.value(line), line});
  }
  file.problems = std::move(scanner.problems());
  return file;
}

std::string ini_quoted(const std::string& value) {
  bool plain = trimmed(value) == value && without_comment(value) == value &&
               !value.starts_with('"') && !value.starts_with('\'');
  if (plain) return value;
  std::string text = "\"";
  for (char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

}  // namespace trireme
