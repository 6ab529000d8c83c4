#include "framework/data/jinja/strings.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "framework/base/error.h"

namespace trireme::jinja {

namespace {

// Python's white space: the byte sequences of Unicode's White_Space and of U+001C to U+001F.
constexpr std::array<std::string_view, 29> kBlanks = {
    " ",      "\t",     "\n",     "\v",     "\f",     "\r",     "\x1c",   "\x1d",
    "\x1e",   "\x1f",   "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002",
    "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a",
    "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};

// Bytes of the blank that stands at `at`, or that ends there; 0 if none does.
std::size_t blank_at(std::string_view text, std::size_t at) {
  for (const std::string_view blank : kBlanks)
    if (text.substr(at, blank.size()) == blank) return blank.size();
  return 0;
}
std::size_t blank_before(std::string_view text, std::size_t end) {
  for (const std::string_view blank : kBlanks)
    if (end >= blank.size() && text.substr(end - blank.size(), blank.size()) == blank)
      return blank.size();
  return 0;
}

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

std::int64_t bytes_of(std::size_t count) { return static_cast<std::int64_t>(count); }

}  // namespace

std::int64_t character_count(const std::string& text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

Text stripped(const Text& text, const std::string& set, bool front, bool back) {
  const std::string& bytes = text.bytes();
  check(
      std::all_of(set.begin(), set.end(), [](char c) { return static_cast<signed char>(c) >= 0; }),
      "strip() of characters outside ASCII is not supported");
  std::size_t begin = 0, end = bytes.size();
  const auto front_one = [&] {
    return set.empty() ? blank_at(bytes, begin) : set.find(bytes[begin]) != std::string::npos;
  };
  const auto back_one = [&] {
    return set.empty() ? blank_before(bytes, end) : set.find(bytes[end - 1]) != std::string::npos;
  };
  while (front && begin < end && front_one() > 0) begin += front_one();
  while (back && begin < end && back_one() > 0) end -= back_one();
  return text.part(begin, end - begin);
}

Value split(const Text& text, const Text* by, std::int64_t most, Budget& budget) {
  const std::string& bytes = text.bytes();
  std::vector<Value> parts;
  std::size_t at = 0;
  if (by != nullptr) {
    check(by->size() > 0, "split() takes a string that is not empty");
    for (std::size_t found; (most < 0 || bytes_of(parts.size()) < most) &&
                            (found = bytes.find(by->bytes(), at)) != std::string::npos;
         at = found + by->size()) {
      budget.step();
      parts.push_back(text.part(at, found - at));
    }
    parts.push_back(text.part(at, bytes.size() - at));
    return make_list(std::move(parts));
  }
  while (at < bytes.size()) {
    if (const std::size_t blank = blank_at(bytes, at)) {
      at += blank;
      continue;
    }
    budget.step();
    std::size_t end = at;
    const bool rest = most >= 0 && bytes_of(parts.size()) == most;
    while (end < bytes.size() && (rest || blank_at(bytes, end) == 0)) ++end;
    parts.push_back(rest ? stripped(text.part(at, end - at), "", false, true)
                         : text.part(at, end - at));
    at = end;
  }
  return make_list(std::move(parts));
}

Value split_lines(const Text& text, Budget& budget) {
  const std::string& bytes = text.bytes();
  std::vector<Value> lines;
  for (std::size_t at = 0; at < bytes.size();) {
    budget.step();
    const std::size_t end = std::min(bytes.find_first_of("\n\r", at), bytes.size());
    lines.push_back(text.part(at, end - at));
    at = end + (bytes.compare(end, 2, "\r\n") == 0 ? 2 : 1);
  }
  return make_list(std::move(lines));
}

Text replaced(const Text& text, const Text& from, const Text& to, std::int64_t most,
              Budget& budget) {
  check(from.size() > 0, "replace() of an empty string is not supported");
  const std::string& bytes = text.bytes();
  Text out;
  std::size_t at = 0;
  std::int64_t times = 0;
  for (std::size_t found;
       (most < 0 || times < most) && (found = bytes.find(from.bytes(), at)) != std::string::npos;
       at = found + from.size(), ++times) {
    budget.text(bytes_of(found - at + to.size()));
    out.append(text.part(at, found - at));
    out.append(to);
  }
  out.append(text.part(at, bytes.size() - at));
  budget.text(bytes_of(out.size()));
  return out;
}

Text joined(const std::vector<Value>& items, const Text& between, Budget& budget) {
  Text out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Text item = to_text(items[i]);
    budget.text(bytes_of(item.size() + between.size()));
    if (i > 0) out.append(between);
    out.append(item);
  }
  return out;
}

Text cased(const Text& text, const std::string& how) {
  if (how == "upper") return text.changed(upper);
  if (how == "lower") return text.changed(lower);
  bool begin = true;
  const bool every_word = how == "title";
  return text.changed([&](char c) {
    const char changed = begin ? upper(c) : lower(c);
    const bool letter = upper(c) != lower(c) || static_cast<signed char>(c) < 0;
    begin = every_word && !letter;
    return changed;
  });
}

Text indented(const Text& text, std::int64_t width, bool first, bool blank, Budget& budget) {
  check(width >= 0 && width <= 1000, "indent() takes 0 to 1000 blanks, not ", width);
  const std::string blanks(static_cast<std::size_t>(width), ' ');
  const std::string& bytes = text.bytes();
  Text out;
  for (std::size_t at = 0; at <= bytes.size();) {
    const std::size_t end = std::min(bytes.find('\n', at), bytes.size());
    budget.text(bytes_of(end - at) + width);
    if ((at > 0 || first) && (end > at || blank)) out.append(blanks, Origin::kTemplate);
    out.append(text.part(at, std::min(end + 1, bytes.size()) - at));
    at = end + 1;
  }
  return out;
}

}  // namespace trireme::jinja
