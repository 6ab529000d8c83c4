// UTF-8, one code point at a time, over text that may not be UTF-8 everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

constexpr char32_t kNoCodePoint = 0xFFFFFFFF;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct CodePoint {
  char32_t value = kNoCodePoint;  // kNoCodePoint: these bytes are no UTF-8
  std::size_t bytes = 1;          // of wrong ones: the longest that could have begun a code point
};

// `at` must be inside the text. Follows the table of well-formed sequences of the Unicode standard
// (3.9): no surrogates, nothing overlong, nothing above U+10FFFF.
inline CodePoint code_point_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(at);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xC2 || lead > 0xF4) return {};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t value = lead & (0x7F >> length);
  for (std::size_t i = 1; i < length; ++i) {
    unsigned low = 0x80, high = 0xBF;
    if (i == 1) {
      if (lead == 0xE0) low = 0xA0;
      if (lead == 0xED) high = 0x9F;
      if (lead == 0xF0) low = 0x90;
      if (lead == 0xF4) high = 0x8F;
    }
    if (at + i >= text.size() || byte(at + i) < low || byte(at + i) > high)
      return {kNoCodePoint, i};
    value = value << 6 | (byte(at + i) & 0x3F);
  }
  return {value, length};
}

// The start of the code point that ends before `at` (of one byte where that is no UTF-8).
inline std::size_t code_point_before(std::string_view text, std::size_t at) {
  for (std::size_t back = 2; back <= 4 && back <= at; ++back) {
    const CodePoint found = code_point_at(text, at - back);
    if (found.value != kNoCodePoint && found.bytes == back) return at - back;
  }
  return at - 1;
}

inline void append_utf8(char32_t value, std::string& text) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (value < 0x80) return put(value);
  if (value < 0x800) {
    put(0xC0 | value >> 6);
  } else if (value < 0x10000) {
    put(0xE0 | value >> 12);
    put(0x80 | (value >> 6 & 0x3F));
  } else {
    put(0xF0 | value >> 18);
    put(0x80 | (value >> 12 & 0x3F));
    put(0x80 | (value >> 6 & 0x3F));
  }
  put(0x80 | (value & 0x3F));
}

inline bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    if (c.value == kNoCodePoint) return false;
    at += c.bytes;
  }
  return true;
}

// Could more bytes make the end of `text`, from `at` on, a code point?
inline bool may_go_on(std::string_view text, std::size_t at) {
  const CodePoint c = code_point_at(text, at);
  const auto lead = static_cast<unsigned char>(text[at]);
  return c.value == kNoCodePoint && at + c.bytes == text.size() && lead >= 0xC2 && lead <= 0xF4;
}

// Each maximal wrong part becomes one U+FFFD, as the Unicode standard recommends.
inline std::string to_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    valid += c.value == kNoCodePoint ? kReplacement : text.substr(at, c.bytes);
    at += c.bytes;
  }
  return valid;
}

}  // namespace trireme
