// Between the types in which arrays are stored and wanted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "framework/base/dtype.h"

namespace trireme {

// Converts `count` elements; neither side need be aligned.
using Convert = void (*)(const std::byte* from, std::byte* to, std::int64_t count);

// One rounding to nearest even, f64 to 16 bits included; the same type copies bits. Throws Error
// for types other than f64, f32, bf16 and f16.
Convert converter(DType from, DType to);

}  // namespace trireme
