#include "framework/data/tokenizers/word_patterns.h"

#include "framework/data/tokenizers/utf8.h"

namespace trireme {

namespace {

// A place in the text, and the class of what stands there.
class Cursor {
 public:
  Cursor(const UnicodeClasses& classes, std::string_view text, std::size_t at)
      : classes_(classes), text_(text), at_(at) {
    look();
  }

  bool end() const { return at_ >= text_.size(); }
  std::size_t at() const { return at_; }
  std::uint8_t bits() const { return bits_; }
  bool is(int bits) const { return (bits_ & bits) != 0; }
  bool shows(char c) const { return !end() && text_[at_] == c; }
  bool is_line_end() const { return shows('\r') || shows('\n'); }
  // [^\s\p{L}\p{N}]
  bool is_symbol() const { return !end() && !is(kSpace | kLetter | kNumber); }

  void next() {
    at_ += bytes_;
    look();
  }
  void run(int bits) {
    while (is(bits)) next();
  }
  void run_symbols() {
    while (is_symbol()) next();
  }
  void run_line_ends(char also = '\n') {
    while (is_line_end() || shows(also)) next();
  }

 private:
  void look() {
    if (end()) {
      bits_ = 0;
      return;
    }
    const auto lead = static_cast<unsigned char>(text_[at_]);
    if (lead < 0x80) {
      bytes_ = 1;
      bits_ = classes_.of(lead);
      return;
    }
    const CodePoint c = code_point_at(text_, at_);
    bytes_ = c.value == kNoCodePoint ? 1 : c.bytes;
    bits_ = classes_.of(c.value);
  }

  const UnicodeClasses& classes_;
  std::string_view text_;
  std::size_t at_, bytes_ = 1;
  std::uint8_t bits_ = 0;
};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// 's|'t|'re|'ve|'m|'ll|'d at `at`; how many bytes, 0: none. Without case also 'ſ (U+017F), which is
// an s to Unicode.
std::size_t contraction(std::string_view text, std::size_t at, bool any_case) {
  if (text[at] != '\'' || at + 1 >= text.size()) return 0;
  const auto letter = [&](std::size_t i) {
    return at + i >= text.size() ? '\0' : any_case ? lower(text[at + i]) : text[at + i];
  };
  const char a = letter(1), b = letter(2);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
  return any_case && text.substr(at + 1, 2) == "\xC5\xBF" ? 3 : 0;
}

// `\s+(?!\S)|\s+` where the cursor stands on a blank: all blanks at the end of the text, else all
// but the last of several.
std::size_t blanks(Cursor cursor) {
  std::size_t count = 0, last = cursor.at();
  for (; cursor.is(kSpace); cursor.next()) {
    last = cursor.at();
    ++count;
  }
  return cursor.end() || count == 1 ? cursor.at() : last;
}

// `\s*[\r\n]+`: behind the last line end of the blanks; 0: they have none.
std::size_t blanks_to_line_end(Cursor cursor) {
  std::size_t found = 0;
  while (cursor.is(kSpace)) {
    const bool line_end = cursor.is_line_end();
    cursor.next();
    if (line_end) found = cursor.at();
  }
  return found;
}

std::size_t match_gpt2(const UnicodeClasses& classes, std::string_view text, std::size_t at) {
  if (const std::size_t bytes = contraction(text, at, false)) return at + bytes;
  Cursor cursor(classes, text, at);
  const Cursor begin = cursor;
  if (cursor.shows(' ')) cursor.next();
  if (cursor.is(kLetter)) {
    cursor.run(kLetter);
  } else if (cursor.is(kNumber)) {
    cursor.run(kNumber);
  } else if (cursor.is_symbol()) {
    cursor.run_symbols();
  } else {
    return blanks(begin);
  }
  return cursor.at();
}

// From the numbers on, Llama 3's and its kin are alike. `digits`: how many are one word; `also`:
// what goes on after symbols like a line end.
std::size_t match_rest(Cursor cursor, int digits, char also = '\n') {
  if (cursor.is(kNumber)) {
    for (int i = 0; i < digits && cursor.is(kNumber); ++i) cursor.next();
    return cursor.at();
  }
  Cursor symbols = cursor;
  if (symbols.shows(' ')) symbols.next();
  if (symbols.is_symbol()) {
    symbols.run_symbols();
    symbols.run_line_ends(also);
    return symbols.at();
  }
  if (const std::size_t end = blanks_to_line_end(cursor)) return end;
  return blanks(cursor);
}

template <int kDigits>
std::size_t match_llama3(const UnicodeClasses& classes, std::string_view text, std::size_t at) {
  if (const std::size_t bytes = contraction(text, at, true)) return at + bytes;
  Cursor cursor(classes, text, at);
  Cursor letters = cursor;
  if (!letters.is(kLetter | kNumber) && !letters.is_line_end()) letters.next();
  if (letters.is(kLetter)) {
    letters.run(kLetter);
    return letters.at();
  }
  return match_rest(cursor, kDigits);
}

bool is_upper_like(const Cursor& c) {  // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
  return c.is(kMark) || (c.is(kLetter) && !c.is(kLower));
}
bool is_lower_like(const Cursor& c) {  // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
  return c.is(kMark) || (c.is(kLetter) && !c.is(kUpper));
}

// U*L+, where letters without case and marks are in both classes: the run of U, then the run of L.
// Where no L follows, U* gives back until it stands before one that is L, too. 0: no match.
std::size_t match_to_lower(Cursor cursor) {
  std::size_t both_end = 0;  // behind the newest of U that is L, too
  while (is_upper_like(cursor)) {
    const bool both = is_lower_like(cursor);
    cursor.next();
    if (both) both_end = cursor.at();
  }
  const std::size_t upper_end = cursor.at();
  while (is_lower_like(cursor)) cursor.next();
  return cursor.at() > upper_end ? cursor.at() : both_end;
}

// U+L*, tried after U*L+ has failed: no L follows.
std::size_t match_upper(Cursor cursor) {
  const std::size_t begin = cursor.at();
  while (is_upper_like(cursor)) cursor.next();
  return cursor.at() > begin ? cursor.at() : 0;
}

// Both with [^\r\n\p{L}\p{N}]? in front, which a mark may be, too.
std::size_t match_cased_word(const Cursor& cursor) {
  Cursor behind = cursor;
  const bool prefix = !cursor.end() && !cursor.is(kLetter | kNumber) && !cursor.is_line_end();
  if (prefix) behind.next();
  for (const auto match : {match_to_lower, match_upper}) {
    const std::size_t longer = prefix ? match(behind) : 0;
    if (longer > 0) return longer;
    if (const std::size_t end = match(cursor)) return end;
  }
  return 0;
}

std::size_t match_tekken(const UnicodeClasses& classes, std::string_view text, std::size_t at) {
  const Cursor cursor(classes, text, at);
  if (const std::size_t end = match_cased_word(cursor)) return end;
  return match_rest(cursor, 1, '/');
}

// o200k: a contraction belongs to the word before it.
std::size_t match_o200k(const UnicodeClasses& classes, std::string_view text, std::size_t at) {
  const Cursor cursor(classes, text, at);
  if (const std::size_t end = match_cased_word(cursor))
    return end < text.size() ? end + contraction(text, end, true) : end;
  return match_rest(cursor, 3, '/');
}

constexpr KnownPattern kPatterns[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", match_gpt2,
     "GPT-2"},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     match_llama3<3>, "Llama 3"},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     match_llama3<1>, "Qwen 2"},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     match_tekken, "Mistral Nemo"},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     match_o200k, "GPT-4o"},
};

}  // namespace

const KnownPattern* find_word_pattern(std::string_view regex) {
  for (const KnownPattern& known : kPatterns)
    if (known.regex == regex) return &known;
  return nullptr;
}

const KnownPattern& gpt2_pattern() { return kPatterns[0]; }
const KnownPattern& llama3_pattern() { return kPatterns[1]; }

}  // namespace trireme
