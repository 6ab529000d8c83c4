#include "framework/base/random.h"

#include <cmath>
#include <numbers>

#include "framework/base/error.h"

namespace trireme {

namespace {

// Finalizer of splitmix64: a bijection that spreads every input bit.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace

RngKey RngKey::child(std::uint64_t tag) const { return {mix(value ^ mix(tag))}; }

RngKey RngKey::child(std::string_view tag) const {
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (char c : tag) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return child(hash);
}

RngKey key_from_seed(std::uint64_t seed) { return {mix(seed)}; }

std::array<std::uint32_t, 4> philox(RngKey key, std::uint64_t block) {
  auto k0 = static_cast<std::uint32_t>(key.value);
  auto k1 = static_cast<std::uint32_t>(key.value >> 32);
  std::array<std::uint32_t, 4> c = {static_cast<std::uint32_t>(block),
                                    static_cast<std::uint32_t>(block >> 32), 0, 0};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = 0xD2511F53ull * c[0];
    const std::uint64_t p1 = 0xCD9E8D57ull * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

std::uint32_t random_word(RngKey key, std::uint64_t index) {
  return philox(key, index / 4)[index % 4];
}

double random_uniform(RngKey key, std::uint64_t index) {
  const auto w = philox(key, index);
  return static_cast<double>(((static_cast<std::uint64_t>(w[0]) << 32) | w[1]) >> 11) * 0x1p-53;
}

namespace {

struct NormalPair {
  double even, odd;
};

NormalPair normal_pair(RngKey key, std::uint64_t block) {
  const auto w = philox(key, block);
  const auto uniform = [&](std::size_t i) {
    return static_cast<double>(((static_cast<std::uint64_t>(w[i]) << 32) | w[i + 1]) >> 11) *
           0x1p-53;
  };
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform(0)));
  const double angle = 2.0 * std::numbers::pi * uniform(2);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace

void random_normals(RngKey key, std::uint64_t first, std::span<double> out) {
  std::size_t i = 0;
  if (first % 2 == 1 && !out.empty()) out[i++] = normal_pair(key, first / 2).odd;
  for (; i + 1 < out.size(); i += 2) {
    const NormalPair pair = normal_pair(key, (first + i) / 2);
    out[i] = pair.even;
    out[i + 1] = pair.odd;
  }
  if (i < out.size()) out[i] = normal_pair(key, (first + i) / 2).even;
}

double random_normal(RngKey key, std::uint64_t index) {
  double value = 0;
  random_normals(key, index, {&value, 1});
  return value;
}

std::uint32_t dropout_threshold(double p) {
  check(p >= 0.0 && p < 1.0, "dropout: the probability must be in [0, 1), got ", p);
  return static_cast<std::uint32_t>(p * 0x1p32);
}

}  // namespace trireme
