#include "framework/backend/cpu/random_words.h"

#include <algorithm>
#include <cstring>

#include "framework/backend/cpu/vector.h"

namespace trireme {

namespace {

using vec::U64;
constexpr int kBlocks = vec::kLanes / 2;  // Philox blocks computed side by side
constexpr int kWords = 4 * kBlocks;

U64 splat(std::uint64_t a) { return U64{} + a; }

// The words of blocks first, first + 1, ..., in element order. Each lane carries 32 bits.
void philox_blocks(RngKey key, std::uint64_t first, std::uint32_t* out) {
  U64 block;
  for (int i = 0; i < kBlocks; ++i) block[i] = first + static_cast<std::uint64_t>(i);
  const U64 low = splat(0xffffffffu);
  U64 c0 = block & low, c1 = block >> 32, c2{}, c3{};
  auto k0 = static_cast<std::uint32_t>(key.value);
  auto k1 = static_cast<std::uint32_t>(key.value >> 32);
  for (int round = 0; round < 10; ++round) {
    const U64 p0 = vec::multiply_low(splat(0xD2511F53u), c0);
    const U64 p1 = vec::multiply_low(splat(0xCD9E8D57u), c2);
    c0 = (p1 >> 32) ^ c1 ^ splat(k0);
    c2 = (p0 >> 32) ^ c3 ^ splat(k1);
    c1 = p1 & low;
    c3 = p0 & low;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  std::uint64_t pairs[2][kBlocks];
  vec::store_as(pairs[0], c0 | (c1 << 32));
  vec::store_as(pairs[1], c2 | (c3 << 32));
  for (int i = 0; i < kBlocks; ++i) {
    std::memcpy(out + 4 * i, &pairs[0][i], 8);
    std::memcpy(out + 4 * i + 2, &pairs[1][i], 8);
  }
}

}  // namespace

void random_words(RngKey key, std::uint64_t index, std::int64_t count, std::uint32_t* out) {
  std::uint32_t words[kWords];
  for (auto skip = static_cast<std::int64_t>(index % 4); count > 0; skip = 0) {
    if (skip == 0 && count >= kWords) {
      philox_blocks(key, index / 4, out);
      index += kWords, out += kWords, count -= kWords;
      continue;
    }
    philox_blocks(key, index / 4, words);
    const std::int64_t n = std::min<std::int64_t>(count, kWords - skip);
    std::memcpy(out, words + skip, static_cast<std::size_t>(n) * 4);
    index += static_cast<std::uint64_t>(n), out += n, count -= n;
  }
}

}  // namespace trireme
