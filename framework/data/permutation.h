// A pseudo-random permutation of 0 .. size-1, evaluated at one position at a time: no list of
// indices, whatever the size. A Feistel network over the next power of four whose round function is
// Philox, with cycle walking (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002):
// positions that fall outside are sent through again. Pure: depends only on (key, size, position).
#pragma once

#include <cstdint>

#include "framework/base/random.h"

namespace trireme {

class Permutation {
 public:
  // 1 <= size <= 2^62.
  Permutation(RngKey key, std::int64_t size);
  // A bijection of [0, size). Error outside.
  std::int64_t operator()(std::int64_t position) const;

 private:
  std::uint64_t network(std::uint64_t value) const;

  RngKey key_;
  std::int64_t size_;
  int half_bits_ = 1;
};

}  // namespace trireme
