#include "framework/checkpoint/root_times.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace trireme {

namespace {

constexpr std::int64_t kRootHeader = 48;  // behind a superblock of version 2 or 3
constexpr std::size_t kTimes = 6, kTimesBytes = 16, kSizeAt = kTimes + kTimesBytes;
constexpr std::uint8_t kKeepsTimes = 0x20, kLongSizes = 0x03, kPhases = 0x10;

using Bytes = std::array<std::uint8_t, 512>;

// One line of lookup3's mixing: x is stirred by z, z grows by y.
void stir(std::uint32_t& x, std::uint32_t& z, std::uint32_t y, int turn) {
  x -= z;
  x ^= std::rotl(z, turn);
  z += y;
}

std::uint32_t lookup3(const Bytes& bytes, std::size_t length) {
  const auto word = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = at; i < std::min(at + 4, length); ++i)
      value |= std::uint32_t{bytes[i]} << (8 * (i - at));
    return value;
  };
  std::uint32_t a = 0xdeadbeefu + static_cast<std::uint32_t>(length), b = a, c = a;
  std::size_t at = 0;
  for (;; at += 12) {
    a += word(at);
    b += word(at + 4);
    c += word(at + 8);
    if (length - at <= 12) break;
    stir(a, c, b, 4);
    stir(b, a, c, 6);
    stir(c, b, a, 8);
    stir(a, c, b, 16);
    stir(b, a, c, 19);
    stir(c, b, a, 4);
  }
  const auto last = [](std::uint32_t& x, std::uint32_t y, int turn) {
    x ^= y;
    x -= std::rotl(y, turn);
  };
  last(c, b, 14);
  last(a, c, 11);
  last(b, a, 25);
  last(c, b, 16);
  last(a, c, 4);
  last(b, a, 14);
  last(c, b, 24);
  return c;
}

}  // namespace

void forget_root_times(File& file) {
  Bytes header{};
  const std::int64_t got = file.read_some(header.data(), std::ssize(header), kRootHeader);
  const std::size_t end = kSizeAt + 1 + header[kSizeAt];  // of what the checksum is over
  const bool timed = std::memcmp(header.data(), "OHDR\x02", 5) == 0 &&
                     (header[5] & (kKeepsTimes | kLongSizes | kPhases)) == kKeepsTimes;
  if (!timed || static_cast<std::int64_t>(end + 4) > got) return;
  std::uint32_t sum = 0;
  std::memcpy(&sum, header.data() + end, sizeof sum);
  if (sum != lookup3(header, end)) return;
  std::fill_n(header.begin() + kTimes, kTimesBytes, std::uint8_t{0});
  sum = lookup3(header, end);
  std::memcpy(header.data() + end, &sum, sizeof sum);
  file.write(header.data(), static_cast<std::int64_t>(end + 4), kRootHeader);
}

}  // namespace trireme
