// What the tokenizers ask of Unicode: classes of code points (16.0), lower case and the four normal
// forms (from utf8proc).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Bits of a code point's class.
enum CharClass : std::uint8_t {
  kLetter = 1,     // \p{L}
  kNumber = 2,     // \p{N}
  kSpace = 4,      // the property White_Space; not what iswspace takes for a blank
  kUpper = 8,      // \p{Lu} \p{Lt}
  kLower = 16,     // \p{Ll}
  kMark = 32,      // \p{M}
  kWord = 64,      // \w: letters, numbers but \p{No}, marks, connectors, joiners
  kNfcPlain = 128  // stays itself in NFC and never joins what stands before it
};

// Immutable; from any thread.
class UnicodeClasses {
 public:
  UnicodeClasses();

  // 0 for what is no code point.
  std::uint8_t of(char32_t c) const {
    if (c >= 0x110000) return 0;
    return blocks_[static_cast<std::size_t>(index_[c >> 8]) * 256 + (c & 255)];
  }

 private:
  std::array<std::uint16_t, 0x1100> index_{};
  std::vector<std::uint8_t> blocks_;
};

// Built at the first call (2 ms).
const UnicodeClasses& unicode_classes();

enum class NormalForm : std::uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// Appends the normal form of `text`. Bytes that are no UTF-8 stay as they are, and nothing is
// composed across them.
void append_normalized(NormalForm form, std::string_view text, std::string& into);

// Appends `text` in lower case, each code point by itself.
void append_lower_case(std::string_view text, std::string& into);

}  // namespace trireme
