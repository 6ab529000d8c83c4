// Numbers as people read them, and as JSON wants them. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

// Three digits and a decimal suffix: 412, 18.4k, 1.21M, 2.50G; 0.84. "nan", "inf".
std::string short_number(double value);
// "%.*g" without a padded exponent: significant(2.9e-4, 2) is "2.9e-4".
std::string significant(double value, int digits);
// Fixed digits behind the point: fixed(3.41234, 4) is "3.4123".
std::string fixed(double value, int digits);
// 45s, 3m12s, 1h02m, 2d03h; tenths below 10 s: 0.8s.
std::string duration_text(double seconds);
// GiB with two digits behind the point, without the unit: 1.21.
std::string gib_text(std::int64_t bytes);
// 24 B, 1.50 KiB, 64.0 MiB, 1.21 GiB.
std::string bytes_text(std::int64_t bytes);
// FLOP a second: 412 GFLOP/s, 1.02 TFLOP/s.
std::string flops_text(double per_second);
// 1234567 -> "1,234,567".
std::string grouped(std::int64_t value);
// 0.412 -> "41%".
std::string percent_text(double fraction);

// 17 significant digits, which read back as the same double; null if it is not finite.
std::string json_number(double value);
// With quotes and escapes. Bytes above 127 are kept: `text` is UTF-8.
std::string json_string(std::string_view text);

}  // namespace trireme
