// A 64-bit fingerprint of tensors, the one definition that every backend obeys bit for bit: the sum
// modulo 2^64 of a mixed word per element.
//
// The word of an element depends on a key, on its index and on its bits, and for a given key and
// index different bits give different words. So a change of one element always shows, several
// changes go unseen with a chance of about 2^-64, and since sums have no order, fingerprints do not
// depend on threads, tiles or how an array is cut: those of parts add up to the whole's. It tells
// accidents; it is no defence against someone who looks for collisions.
//
// The sum travels as two f64, [low 32 bits, high 32 bits], which ranks can add up exactly: 2^21 of
// them fit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace trireme {

// Steps are inverses of each other's kind: adding, multiplying by an odd number, and folding the
// upper bits onto the lower ones can each be undone, so no two inputs meet.
inline std::uint64_t mixed_word(std::uint64_t x) {
  x *= 0xd6e8feb86659fd93ull;
  x ^= x >> 32;
  x *= 0x9e6c63d0876a9a47ull;
  return x ^ (x >> 29);
}

// What is added to the bits of the element of that index: equal steps, so loops need no product.
inline constexpr std::uint64_t kFingerprintStep = 0x9e3779b97f4a7c15ull;
inline std::uint64_t fingerprint_offset(std::uint64_t key, std::int64_t index) {
  return key + static_cast<std::uint64_t>(index) * kFingerprintStep;
}

// Elements are Word-sized and lie as such in memory; `first` is the index of the first. Products
// take so long that the CPU would not ask for later lines in time by itself: a block is worked on
// while a later one is on its way.
template <typename Word>
std::uint64_t fingerprint_words(const void* elements, std::int64_t count, std::uint64_t key,
                                std::int64_t first) {
  constexpr std::int64_t kBytes = sizeof(Word), kBlock = 512, kAhead = 2048, kLine = 64;
  const char* bytes = static_cast<const char*>(elements);
  const char* end = bytes + count * kBytes;
  std::uint64_t sum = 0, offset = fingerprint_offset(key, first);
  while (bytes < end) {
    const std::int64_t now = std::min<std::int64_t>(kBlock, end - bytes) / kBytes;
    if (end - bytes > kAhead + kBlock)
      for (std::int64_t line = 0; line < kBlock; line += kLine)
        __builtin_prefetch(bytes + kAhead + line);
    for (std::int64_t i = 0; i < now; ++i) {
      Word word;
      std::memcpy(&word, bytes + i * kBytes, sizeof word);
      sum += mixed_word(word + offset);
      offset += kFingerprintStep;
    }
    bytes += now * kBytes;
  }
  return sum;
}

// `bytes` per element: 1, 2, 4 or 8.
inline std::uint64_t fingerprint_of(const void* elements, std::int64_t count, std::int64_t bytes,
                                    std::uint64_t key, std::int64_t first) {
  switch (bytes) {
    case 1:
      return fingerprint_words<std::uint8_t>(elements, count, key, first);
    case 2:
      return fingerprint_words<std::uint16_t>(elements, count, key, first);
    case 4:
      return fingerprint_words<std::uint32_t>(elements, count, key, first);
    default:
      return fingerprint_words<std::uint64_t>(elements, count, key, first);
  }
}

// The number that two f64 hold, each a whole number below 2^53; and the reverse, each below 2^32.
inline std::uint64_t joined_fingerprint(double low, double high) {
  return static_cast<std::uint64_t>(low) + (static_cast<std::uint64_t>(high) << 32);
}
inline void split_fingerprint(std::uint64_t value, double* low_high) {
  low_high[0] = static_cast<double>(value & 0xffffffffu);
  low_high[1] = static_cast<double>(value >> 32);
}
inline void add_fingerprint(std::uint64_t value, double* low_high) {
  split_fingerprint(joined_fingerprint(low_high[0], low_high[1]) + value, low_high);
}

}  // namespace trireme
