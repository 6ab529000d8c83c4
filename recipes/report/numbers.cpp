#include "recipes/report/numbers.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace trireme {
namespace {

std::string printed(double value, std::chars_format format, int digits) {
  if (std::isnan(value)) value = std::nan("");  // without the sign that processors give it
  constexpr std::size_t kLongestWhole = 330;    // of 1.8e308, with sign and point
  std::string text(kLongestWhole + static_cast<std::size_t>(digits), ' ');
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, format, digits);
  text.resize(static_cast<std::size_t>(end.ptr - text.data()));
  return text;
}

// Three digits: 1.21, 12.1, 121.
std::string three_digits(double value) {
  double size = std::abs(value);
  return fixed(value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

}  // namespace

std::string fixed(double value, int digits) {
  return printed(value, std::chars_format::fixed, digits);
}

std::string significant(double value, int digits) {
  std::string text = printed(value, std::chars_format::general, digits);
  auto e = text.find('e');
  if (e == std::string::npos) {
    // %g writes 0.00029 where people write 2.9e-4.
    if (value == 0 || !std::isfinite(value) || std::abs(value) >= 1e-3) return text;
    text = printed(value, std::chars_format::scientific, digits - 1);
    e = text.find('e');
  }
  auto first = text.find_first_not_of("+-0", e + 1);
  std::string sign = text[e + 1] == '-' ? "-" : "";
  return text.substr(0, e + 1) + sign + text.substr(first);
}

std::string short_number(double value) {
  if (!std::isfinite(value)) return printed(value, std::chars_format::fixed, 0);
  constexpr std::array<const char*, 6> kSuffixes{"", "k", "M", "G", "T", "P"};
  std::size_t power = 0;
  while (std::abs(value) >= 999.5 && power + 1 < kSuffixes.size()) {
    value /= 1000;
    ++power;
  }
  return three_digits(value) + kSuffixes[power];
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds < 9.95) return fixed(seconds, 1) + "s";
  auto whole = static_cast<std::int64_t>(std::llround(seconds));
  auto two = [](std::int64_t value) { return std::to_string(100 + value).substr(1); };
  if (whole < 60) return std::to_string(whole) + "s";
  if (whole < 3600) return std::to_string(whole / 60) + "m" + two(whole % 60) + "s";
  if (whole < 86400) return std::to_string(whole / 3600) + "h" + two(whole / 60 % 60) + "m";
  return std::to_string(whole / 86400) + "d" + two(whole / 3600 % 24) + "h";
}

std::string gib_text(std::int64_t bytes) { return fixed(static_cast<double>(bytes) * 0x1p-30, 2); }

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{" B", " KiB", " MiB", " GiB", " TiB"};
  if (std::abs(bytes) < 1024) return std::to_string(bytes) + kUnits[0];
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return three_digits(value) + kUnits[unit];
}

std::string flops_text(double per_second) {
  constexpr std::array<const char*, 5> kUnits{" FLOP/s", " kFLOP/s", " MFLOP/s", " GFLOP/s",
                                              " TFLOP/s"};
  std::size_t unit = 0;
  while (std::abs(per_second) >= 999.5 && unit + 1 < kUnits.size()) {
    per_second /= 1000;
    ++unit;
  }
  return three_digits(per_second) + kUnits[unit];
}

std::string grouped(std::int64_t value) {
  std::string text = std::to_string(value);
  std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > first + 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string percent_text(double fraction) { return fixed(100 * fraction, 0) + "%"; }

std::string json_number(double value) {
  return std::isfinite(value) ? printed(value, std::chars_format::general, 17) : "null";
}

std::string json_string(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> buffer;
      std::snprintf(buffer.data(), buffer.size(), "\\u%04x", c);
      result += buffer.data();
    } else {
      result += c;
    }
  }
  return result + '"';
}

}  // namespace trireme
