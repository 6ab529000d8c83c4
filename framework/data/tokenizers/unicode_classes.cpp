#include <utf8proc.h>

#include <algorithm>
#include <map>

#include "framework/data/tokenizers/unicode.h"

namespace trireme {

namespace {

struct Range {
  char32_t first, last;
  std::uint8_t bits;
};

constexpr std::uint8_t kLetterWord = kLetter | kWord, kMarkWord = kMark | kWord;

// Given a meaning in Unicode 15.1 and 16.0; Debian's utf8proc knows 15.0.
constexpr Range kNewer[] = {
    {0x897, 0x897, kMarkWord},
    {0x1C89, 0x1C89, kLetterWord | kUpper},
    {0x1C8A, 0x1C8A, kLetterWord | kLower},
    {0xA7CB, 0xA7CC, kLetterWord | kUpper},
    {0xA7CD, 0xA7CD, kLetterWord | kLower},
    {0xA7DA, 0xA7DA, kLetterWord | kUpper},
    {0xA7DB, 0xA7DB, kLetterWord | kLower},
    {0xA7DC, 0xA7DC, kLetterWord | kUpper},
    {0x105C0, 0x105F3, kLetterWord},
    {0x10D40, 0x10D49, kNumber | kWord},
    {0x10D4A, 0x10D4F, kLetterWord},
    {0x10D50, 0x10D65, kLetterWord | kUpper},
    {0x10D69, 0x10D6D, kMarkWord},
    {0x10D6F, 0x10D6F, kLetterWord},
    {0x10D70, 0x10D85, kLetterWord | kLower},
    {0x10EC2, 0x10EC4, kLetterWord},
    {0x10EFC, 0x10EFC, kMarkWord},
    {0x11380, 0x11389, kLetterWord},
    {0x1138B, 0x1138B, kLetterWord},
    {0x1138E, 0x1138E, kLetterWord},
    {0x11390, 0x113B5, kLetterWord},
    {0x113B7, 0x113B7, kLetterWord},
    {0x113B8, 0x113C0, kMarkWord},
    {0x113C2, 0x113C2, kMarkWord},
    {0x113C5, 0x113C5, kMarkWord},
    {0x113C7, 0x113CA, kMarkWord},
    {0x113CC, 0x113D0, kMarkWord},
    {0x113D1, 0x113D1, kLetterWord},
    {0x113D2, 0x113D2, kMarkWord},
    {0x113D3, 0x113D3, kLetterWord},
    {0x113E1, 0x113E2, kMarkWord},
    {0x116D0, 0x116E3, kNumber | kWord},
    {0x11BC0, 0x11BE0, kLetterWord},
    {0x11BF0, 0x11BF9, kNumber | kWord},
    {0x11F5A, 0x11F5A, kMarkWord},
    {0x13460, 0x143FA, kLetterWord},
    {0x16100, 0x1611D, kLetterWord},
    {0x1611E, 0x1612F, kMarkWord},
    {0x16130, 0x16139, kNumber | kWord},
    {0x16D40, 0x16D6C, kLetterWord},
    {0x16D70, 0x16D79, kNumber | kWord},
    {0x18CFF, 0x18CFF, kLetterWord},
    {0x1CCF0, 0x1CCF9, kNumber | kWord},
    {0x1E5D0, 0x1E5ED, kLetterWord},
    {0x1E5EE, 0x1E5EF, kMarkWord},
    {0x1E5F0, 0x1E5F0, kLetterWord},
    {0x1E5F1, 0x1E5FA, kNumber | kWord},
    {0x2EBF0, 0x2EE5D, kLetterWord},
};

// The property White_Space, whole.
constexpr Range kSpaces[] = {
    {0x9, 0xD, kSpace},       {0x20, 0x20, kSpace},     {0x85, 0x85, kSpace},
    {0xA0, 0xA0, kSpace},     {0x1680, 0x1680, kSpace}, {0x2000, 0x200A, kSpace},
    {0x2028, 0x2029, kSpace}, {0x202F, 0x202F, kSpace}, {0x205F, 0x205F, kSpace},
    {0x3000, 0x3000, kSpace},
};

// In \w beside its categories: joiners, and symbols with the property Alphabetic.
constexpr Range kWords[] = {
    {0x200C, 0x200D, kWord},   {0x24B6, 0x24E9, kWord},   {0x1F130, 0x1F149, kWord},
    {0x1F150, 0x1F169, kWord}, {0x1F170, 0x1F189, kWord},
};

// Beyond these nothing has a class that is asked for.
constexpr char32_t kEnd = 0x32400, kTagsBegin = 0xE0000, kTagsEnd = 0xE0200;

std::uint8_t category_bits(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
      return kLetterWord | kUpper;
    case UTF8PROC_CATEGORY_LL:
      return kLetterWord | kLower;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return kLetterWord;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
      return kNumber | kWord;
    case UTF8PROC_CATEGORY_NO:
      return kNumber;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return kMarkWord;
    case UTF8PROC_CATEGORY_PC:
      return kWord;
    default:
      return 0;
  }
}

// Itself in NFC, a starter, and never the second of a pair that composes.
std::uint8_t nfc_bit(char32_t c) {
  if (c < 0x300) return kNfcPlain;
  if (c >= 0x1160 && c <= 0x11FF) return 0;          // Hangul vowels and finals
  if (c >= 0xAC00 && c <= 0xD7A3) return kNfcPlain;  // Hangul syllables
  const utf8proc_property_t& p = *utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  if (p.combining_class != 0) return 0;
  const bool composes_backwards = p.comb_index != UINT16_MAX && p.comb_index >= 0x8000;
  if (composes_backwards) return 0;
  if (p.decomp_seqindex == UINT16_MAX || p.decomp_type != 0) return kNfcPlain;
  std::array<utf8proc_int32_t, 32> parts{};
  utf8proc_ssize_t count = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(c), parts.data(), 32,
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE), nullptr);
  if (count <= 0) return 0;
  count = utf8proc_normalize_utf32(
      parts.data(), count, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  return count == 1 && static_cast<char32_t>(parts[0]) == c ? std::uint8_t{kNfcPlain}
                                                            : std::uint8_t{0};
}

template <std::size_t N>
void add(const Range (&ranges)[N], char32_t first, std::array<std::uint8_t, 256>& block) {
  for (const Range& range : ranges)
    for (char32_t c = std::max(range.first, first); c <= range.last && c < first + 256; ++c)
      block[c - first] |= range.bits;
}

std::array<std::uint8_t, 256> classes_of_block(char32_t first) {
  std::array<std::uint8_t, 256> block{};
  if (first >= kEnd && (first < kTagsBegin || first >= kTagsEnd)) {
    block.fill(kNfcPlain);
    return block;
  }
  for (char32_t i = 0; i < 256; ++i)
    block[i] = static_cast<std::uint8_t>(category_bits(first + i) | nfc_bit(first + i));
  add(kNewer, first, block);
  add(kSpaces, first, block);
  add(kWords, first, block);
  return block;
}

}  // namespace

UnicodeClasses::UnicodeClasses() {
  std::map<std::array<std::uint8_t, 256>, std::uint16_t> known;
  for (std::size_t i = 0; i < index_.size(); ++i) {
    const auto block = classes_of_block(static_cast<char32_t>(i << 8));
    const auto [at, added] = known.try_emplace(block, static_cast<std::uint16_t>(known.size()));
    if (added) blocks_.insert(blocks_.end(), block.begin(), block.end());
    index_[i] = at->second;
  }
}

const UnicodeClasses& unicode_classes() {
  static const UnicodeClasses classes;
  return classes;
}

}  // namespace trireme
