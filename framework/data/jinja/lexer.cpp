#include "framework/data/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "framework/base/error.h"

namespace trireme::jinja {

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& name) : source_(source), name_(name) {
    if (!source_.empty() && source_.back() == '\n') source_.remove_suffix(1);  // as Jinja does
  }

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const std::size_t open = next_opening();
      const bool block = open < source_.size() && source_[open + 1] != '{';
      write_text(open, block);
      move_to(open);
      if (open >= source_.size()) break;
      if (source_[at_ + 1] == '#')
        skip_comment();
      else if (!skip_raw())
        take_tag();
    }
    put(Token::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  using Kind = Token::Kind;

  template <typename... Parts>
  [[noreturn]] void complain(const Parts&... parts) const {
    fail(name_, ":", line_, ": ", parts...);
  }
  void put(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void move_to(std::size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }
  bool starts(std::size_t at, std::string_view text) const {
    return source_.substr(at, text.size()) == text;
  }

  std::size_t next_opening() const {
    for (std::size_t i = at_; i + 1 < source_.size(); ++i)
      if (source_[i] == '{' &&
          (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#'))
        return i;
    return source_.size();
  }

  // The text before an opening, without the blanks that the tag behind or before it eats.
  void write_text(std::size_t end, bool block) {
    std::string_view text = source_.substr(at_, end - at_);
    const char sign = end + 2 < source_.size() ? source_[end + 2] : ' ';
    if (end < source_.size() && sign == '-') {
      while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
    } else if (end < source_.size() && block && sign != '+') {
      std::size_t begin = text.size();
      while (begin > 0 && (text[begin - 1] == ' ' || text[begin - 1] == '\t')) --begin;
      const bool at_line_begin =
          begin > 0 ? text[begin - 1] == '\n' : at_ == 0 || source_[at_ - 1] == '\n';
      if (at_line_begin) text = text.substr(0, begin);
    }
    if (!text.empty()) put(Kind::kText, std::string(text));
  }

  // Behind a tag: all blanks after "-", else one line break after a block.
  void after(bool strips, bool block) {
    std::size_t to = at_;
    if (strips) {
      while (to < source_.size() && is_blank(source_[to])) ++to;
    } else if (block) {
      if (to < source_.size() && source_[to] == '\r') ++to;
      if (to < source_.size() && source_[to] == '\n')
        ++to;
      else
        to = at_;
    }
    move_to(to);
  }

  void skip_comment() {
    const std::size_t end = source_.find("#}", at_ + 2);
    if (end == std::string_view::npos) complain("the comment has no end, #}");
    const bool strips = source_[end - 1] == '-' && end - 1 > at_ + 1;
    move_to(end + 2);
    after(strips, true);
  }

  // Steps over "{%", "raw" and "%}" written with any blanks and signs; false if it is another tag.
  bool skip_tag(std::string_view word, std::size_t& at, bool& strips_before,
                bool& strips_after) const {
    std::size_t i = at;
    if (!starts(i, "{%")) return false;
    i += 2;
    strips_before = i < source_.size() && source_[i] == '-';
    if (i < source_.size() && (source_[i] == '-' || source_[i] == '+')) ++i;
    while (i < source_.size() && is_blank(source_[i])) ++i;
    if (!starts(i, word)) return false;
    i += word.size();
    while (i < source_.size() && is_blank(source_[i])) ++i;
    strips_after = i < source_.size() && source_[i] == '-';
    if (strips_after) ++i;
    if (!starts(i, "%}")) return false;
    at = i + 2;
    return true;
  }

  bool skip_raw() {
    bool before = false, strips = false;
    std::size_t begin = at_;
    if (!skip_tag("raw", begin, before, strips)) return false;
    move_to(begin);
    after(strips, true);
    for (std::size_t end = at_; (end = source_.find("{%", end)) != std::string_view::npos; ++end) {
      std::size_t behind = end;
      if (!skip_tag("endraw", behind, before, strips)) continue;
      std::string_view text = source_.substr(at_, end - at_);
      while (before && !text.empty() && is_blank(text.back())) text.remove_suffix(1);
      if (!text.empty()) put(Kind::kText, std::string(text));
      move_to(behind);
      after(strips, true);
      return true;
    }
    complain("{% raw %} has no {% endraw %}");
  }

  void take_tag() {
    const bool print = source_[at_ + 1] == '{';
    put(print ? Kind::kPrintBegin : Kind::kTagBegin, print ? "{{" : "{%");
    move_to(at_ + 2);
    if (at_ < source_.size() && (source_[at_] == '-' || (!print && source_[at_] == '+')))
      move_to(at_ + 1);
    const std::string_view closing = print ? "}}" : "%}";
    int open = 0;  // brackets: "}}" may close two mappings
    for (;;) {
      while (at_ < source_.size() && is_blank(source_[at_])) move_to(at_ + 1);
      if (at_ >= source_.size()) complain("the tag has no end, ", closing);
      const bool signed_end =
          (source_[at_] == '-' || source_[at_] == '+') && starts(at_ + 1, closing);
      if (open == 0 && (signed_end || starts(at_, closing))) {
        const bool strips = signed_end && source_[at_] == '-';
        put(print ? Kind::kPrintEnd : Kind::kTagEnd, std::string(closing));
        move_to(at_ + (signed_end ? 3 : 2));
        after(strips, !print && !signed_end);
        return;
      }
      take_word();
      const Token& last = tokens_.back();
      if (last.kind != Kind::kSign) continue;
      if (last.text == "{" || last.text == "[" || last.text == "(") ++open;
      if ((last.text == "}" || last.text == "]" || last.text == ")") && open > 0) --open;
    }
  }

  void take_word() {
    const char c = source_[at_];
    if (is_letter(c)) return take_name();
    if (is_digit(c)) return take_number();
    if (c == '\'' || c == '"') return take_string();
    for (const std::string_view sign : {"//", "**", "==", "!=", "<=", ">="})
      if (starts(at_, sign)) return take_sign(sign);
    if (std::string_view("+-*/%~<>=.,:|()[]{}").find(c) == std::string_view::npos)
      complain("the character '", c, "' is not expected in a tag");
    take_sign(source_.substr(at_, 1));
  }

  void take_sign(std::string_view sign) {
    put(Kind::kSign, std::string(sign));
    move_to(at_ + sign.size());
  }

  void take_name() {
    std::size_t end = at_;
    while (end < source_.size() && (is_letter(source_[end]) || is_digit(source_[end]))) ++end;
    put(Kind::kName, std::string(source_.substr(at_, end - at_)));
    move_to(end);
  }

  void take_number() {
    std::size_t end = at_;
    const auto digits = [&] {
      while (end < source_.size() && (is_digit(source_[end]) || source_[end] == '_')) ++end;
    };
    digits();
    bool real = false;
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      real = true;
      ++end;
      digits();
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      std::size_t power = end + 1;
      if (power < source_.size() && (source_[power] == '+' || source_[power] == '-')) ++power;
      if (power < source_.size() && is_digit(source_[power])) {
        real = true;
        end = power;
        digits();
      }
    }
    std::string text(source_.substr(at_, end - at_));
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    put(real ? Kind::kReal : Kind::kInteger, text);
    move_to(end);
  }

  void take_string() {
    const char quote = source_[at_];
    std::string text;
    std::size_t i = at_ + 1;
    for (; i < source_.size() && source_[i] != quote; ++i)
      source_[i] == '\\' ? unescape(i, text) : text.push_back(source_[i]);
    if (i >= source_.size()) complain("the string has no end, ", quote);
    put(Kind::kString, text);
    move_to(i + 1);
  }

  // A backslash at i: appends what it means, leaves i at its last character.
  void unescape(std::size_t& i, std::string& text) const {
    constexpr std::array<std::pair<char, char>, 11> kMeant = {{{'n', '\n'},
                                                               {'t', '\t'},
                                                               {'r', '\r'},
                                                               {'b', '\b'},
                                                               {'f', '\f'},
                                                               {'v', '\v'},
                                                               {'a', '\a'},
                                                               {'0', '\0'},
                                                               {'\\', '\\'},
                                                               {'\'', '\''},
                                                               {'"', '"'}}};
    const char c = ++i < source_.size() ? source_[i] : '\0';
    if (c == 'u' || c == 'x') {
      const std::size_t digits = c == 'u' ? 4 : 2;
      append_code_point(code_point(i + 1, digits), text);
      i += digits;
      return;
    }
    for (const auto& [letter, meant] : kMeant)
      if (c == letter) {
        text.push_back(meant);
        return;
      }
    text.push_back('\\');  // as Python keeps what it does not know
    text.push_back(c);
  }

  std::uint32_t code_point(std::size_t at, std::size_t digits) const {
    std::uint32_t value = 0;
    for (std::size_t i = at; i < at + digits; ++i) {
      const char c = i < source_.size() ? source_[i] : ' ';
      const std::size_t digit = std::string_view("0123456789abcdef").find(c | 0x20);
      if ((!is_digit(c) && !is_letter(c)) || digit > 15)
        complain("a string has \\ with fewer than ", digits, " hexadecimal digits");
      value = value * 16 + static_cast<std::uint32_t>(digit);
    }
    if (value >= 0xd800 && value < 0xe000) complain("a string has half of a surrogate pair");
    return value;
  }

  static void append_code_point(std::uint32_t code, std::string& text) {
    const auto byte = [&](std::uint32_t value) { text.push_back(static_cast<char>(value)); };
    if (code < 0x80) return byte(code);
    if (code < 0x800) {
      byte(0xc0 | code >> 6);
    } else {
      byte(0xe0 | code >> 12);
      byte(0x80 | (code >> 6 & 0x3f));
    }
    byte(0x80 | (code & 0x3f));
  }

  std::string_view source_;
  const std::string& name_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source, const std::string& name) {
  return Lexer(source, name).run();
}

}  // namespace trireme::jinja
