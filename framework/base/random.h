// Counter-based random numbers (Philox4x32-10; Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011).
//
// A number depends only on (key, counter). The key names the seed and the purpose: a parameter, or
// a dropout site and the attempted step; the counter is the *global* element index. So initial
// weights and dropout masks are the same under every layout, and recomputation needs no saved
// state. All functions are pure.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace trireme {

// Identifies one stream of random numbers.
struct RngKey {
  std::uint64_t value = 0;
  // A stream derived from this one; different tags give independent streams.
  RngKey child(std::uint64_t tag) const;
  RngKey child(std::string_view tag) const;
  bool operator==(const RngKey&) const = default;
};

RngKey key_from_seed(std::uint64_t seed);

// The four 32-bit words for block `block` of the stream.
std::array<std::uint32_t, 4> philox(RngKey key, std::uint64_t block);

// The 32-bit word for element `index`: word index % 4 of block index / 4.
std::uint32_t random_word(RngKey key, std::uint64_t index);

// Uniform in [0, 1) with 24 bits, from one word.
inline float uniform_from(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// Standard normals for elements first, first + 1, ...: Box-Muller in double over block index / 2,
// even elements by the cosine and odd ones by the sine. One scalar routine, so initial weights have
// the same bits on every backend and layout, however a range is cut.
void random_normals(RngKey key, std::uint64_t first, std::span<double> out);
double random_normal(RngKey key, std::uint64_t index);
double random_uniform(RngKey key, std::uint64_t index);  // [0, 1), 53 bits, from block `index`

// An element is dropped if its word is below this threshold: floor(p * 2^32). p in [0, 1).
std::uint32_t dropout_threshold(double p);

}  // namespace trireme
