#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "recipes/cli/values.h"

namespace trireme {
namespace {

// 2^53: a double holds every integer up to here, but what reads as 2^53 may have been written as
// 2^53 + 1.
constexpr double kTooLarge = 9007199254740992.0;

struct Suffix {
  std::string_view text;
  double factor;
};
constexpr std::array<Suffix, 4> kCountSuffixes{{{"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}}};
constexpr std::array<Suffix, 9> kSizeSuffixes{{{"TiB", 0x1p40},
                                               {"GiB", 0x1p30},
                                               {"MiB", 0x1p20},
                                               {"KiB", 0x1p10},
                                               {"TB", 1e12},
                                               {"GB", 1e9},
                                               {"MB", 1e6},
                                               {"kB", 1e3},
                                               {"B", 1}}};

std::optional<std::int64_t> whole(std::string_view text, const Suffix* begin, const Suffix* end) {
  double factor = 1;
  for (const Suffix* suffix = begin; suffix != end; ++suffix) {
    if (!text.ends_with(suffix->text)) continue;
    factor = suffix->factor;
    text.remove_suffix(suffix->text.size());
    while (text.ends_with(' ')) text.remove_suffix(1);
    break;
  }
  auto number = parse_number(text);
  if (!number) return std::nullopt;
  double product = *number * factor;
  if (std::abs(product) >= kTooLarge || product != std::floor(product)) return std::nullopt;
  return static_cast<std::int64_t>(product);
}

}  // namespace

std::optional<double> parse_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

std::optional<std::int64_t> parse_count(std::string_view text) {
  return whole(text, kCountSuffixes.begin(), kCountSuffixes.end());
}

std::optional<std::int64_t> parse_size(std::string_view text) {
  return whole(text, kSizeSuffixes.begin(), kSizeSuffixes.end());
}

std::optional<bool> parse_bool(std::string_view text) {
  for (auto word : {"true", "on", "yes", "1"})
    if (text == word) return true;
  for (auto word : {"false", "off", "no", "0"})
    if (text == word) return false;
  return std::nullopt;
}

std::string number_text(double value) {
  std::array<char, 40> buffer;
  auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  // "3e-04" and "1e+06", as to_chars has it, are 3e-4 and 1e6 to people.
  if (auto e = text.find('e'); e != std::string::npos) {
    auto digits = text.find_first_not_of("+-0", e + 1);
    text = text.substr(0, e + 1) + (text[e + 1] == '-' ? "-" : "") + text.substr(digits);
  }
  return text;
}

std::string size_text(std::int64_t bytes) {
  for (std::size_t i = 0; i < 4; ++i) {
    auto factor = static_cast<std::int64_t>(kSizeSuffixes[i].factor);
    if (bytes != 0 && bytes % factor == 0)
      return std::to_string(bytes / factor) + std::string(kSizeSuffixes[i].text);
  }
  return std::to_string(bytes);
}

std::string one_of(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace trireme
