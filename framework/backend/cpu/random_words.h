// Philox words of a stream for consecutive element indices, many at a time: exactly those of
// framework/base/random.h.
#pragma once

#include <cstdint>

#include "framework/base/random.h"

namespace trireme {

// out[i] = random_word(key, index + i) for i in [0, count).
void random_words(RngKey key, std::uint64_t index, std::int64_t count, std::uint32_t* out);

}  // namespace trireme
