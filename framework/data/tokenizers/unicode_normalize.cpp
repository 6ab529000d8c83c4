#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <memory>

#include "framework/base/error.h"
#include "framework/data/tokenizers/unicode.h"
#include "framework/data/tokenizers/utf8.h"

namespace trireme {

namespace {

// Code points that a normal form changes, reorders or composes since Unicode 10 or later. The
// `tokenizers` package normalizes by Unicode 9: it knows nothing of them, so they stay what and
// where they are, and nothing moves across them.
constexpr std::array<char32_t, 2> kStay[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
    {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},
    {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},
    {0xA82C, 0xA82C},   {0xAB69, 0xAB69},   {0x10781, 0x107BA}, {0x10D24, 0x10D27},
    {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85},
    {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x11930, 0x11930}, {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943},
    {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99},
    {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42},
    {0x16FF0, 0x16FF1}, {0x1E030, 0x1E06D}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136},
    {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1F16C, 0x1F16C},
    {0x1FBF0, 0x1FBF9},
};

bool stays(char32_t c) {
  const auto* range = std::lower_bound(
      std::begin(kStay), std::end(kStay), c,
      [](const std::array<char32_t, 2>& r, char32_t wanted) { return r[1] < wanted; });
  return range != std::end(kStay) && c >= (*range)[0];
}

utf8proc_option_t options_of(NormalForm form) {
  const bool composed = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  return static_cast<utf8proc_option_t>(UTF8PROC_STABLE |
                                        (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                        (compatible ? UTF8PROC_COMPAT : 0));
}

// `text` is UTF-8.
void append_mapped(NormalForm form, std::string_view text, std::string& into) {
  if (text.empty()) return;
  utf8proc_uint8_t* found = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &found, options_of(form));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(found, std::free);
  check(bytes >= 0, "normalize: ", utf8proc_errmsg(bytes));
  into.append(reinterpret_cast<const char*>(found), static_cast<std::size_t>(bytes));
}

}  // namespace

// A code point that is plain (in NFC: see kNfcPlain; in the other forms: ASCII) may begin a part of
// its own: what stands before it never changes with it. A plain one before another plain one is
// copied; only parts with others in them are mapped.
void append_normalized(NormalForm form, std::string_view text, std::string& into) {
  const UnicodeClasses& classes = unicode_classes();
  const bool nfc = form == NormalForm::kNfc;
  const auto plain = [&](char32_t c) { return nfc ? (classes.of(c) & kNfcPlain) != 0 : c < 0x80; };
  std::size_t part = 0;  // begins here; copied or mapped up to here
  std::size_t last = 0;  // the newest plain code point of the part
  bool mapped = false;   // the part has others
  const auto end_part = [&](std::size_t at) {
    into += text.substr(part, last - part);
    if (mapped)
      append_mapped(form, text.substr(last, at - last), into);
    else
      into += text.substr(last, at - last);
    part = last = at;
    mapped = false;
  };
  for (std::size_t at = 0; at < text.size();) {
    if (!mapped && static_cast<unsigned char>(text[at]) < 0x80) {
      last = at++;
      continue;
    }
    const CodePoint c = code_point_at(text, at);
    const bool is_plain = plain(c.value);
    if (c.value == kNoCodePoint || (!is_plain && stays(c.value))) {
      end_part(at);
      into += text.substr(at, c.bytes);
      part = last = at + c.bytes;
    } else if (!is_plain) {
      mapped = true;
    } else {
      if (mapped) end_part(at);
      last = at;
    }
    at += c.bytes;
  }
  end_part(text.size());
}

void append_lower_case(std::string_view text, std::string& into) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    if (c.value == kNoCodePoint)
      into += text.substr(at, c.bytes);
    else if (c.value == 0x130)  // the one that becomes two
      into += "i\xCC\x87";
    else
      append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c.value))),
                  into);
    at += c.bytes;
  }
}

}  // namespace trireme
