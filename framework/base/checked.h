// Sums and products of sizes that came out of a file: an Error instead of a wrapped number, which
// would then pass every later comparison.
#pragma once

#include <cstdint>
#include <string_view>

#include "framework/base/error.h"

namespace trireme {

// `what` names the number in the sentence: "bytes of tensor "w"".
inline std::int64_t checked_mul(std::int64_t a, std::int64_t b, std::string_view what) {
  std::int64_t product = 0;
  const bool fits = !__builtin_mul_overflow(a, b, &product);
  check(fits, what, ": ", a, " x ", b, " does not fit into 64 bits");
  return product;
}

inline std::int64_t checked_add(std::int64_t a, std::int64_t b, std::string_view what) {
  std::int64_t sum = 0;
  const bool fits = !__builtin_add_overflow(a, b, &sum);
  check(fits, what, ": ", a, " + ", b, " does not fit into 64 bits");
  return sum;
}

}  // namespace trireme
