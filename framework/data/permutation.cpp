#include "framework/data/permutation.h"

#include "framework/base/error.h"

namespace trireme {

namespace {
constexpr int kRounds = 6;
}

Permutation::Permutation(RngKey key, std::int64_t size) : key_(key), size_(size) {
  check(size >= 1 && size <= (std::int64_t{1} << 62), "permutation: a size of ", size,
        " is not in 1 to 2^62");
  while ((std::int64_t{1} << (2 * half_bits_)) < size) ++half_bits_;
}

std::uint64_t Permutation::network(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t mixed = philox(key_, (round << 32) | right)[0];
    const std::uint64_t next = left ^ (mixed & mask);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

std::int64_t Permutation::operator()(std::int64_t position) const {
  check(position >= 0 && position < size_, "permutation: position ", position, " is not below ",
        size_);
  auto value = static_cast<std::uint64_t>(position);
  do value = network(value);
  while (value >= static_cast<std::uint64_t>(size_));
  return static_cast<std::int64_t>(value);
}

}  // namespace trireme
