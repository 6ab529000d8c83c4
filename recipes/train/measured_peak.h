// What the machine can do, measured instead of guessed: the rate of a large matrix product.
#pragma once

#include "framework/base/dtype.h"

namespace trireme {

// FLOP/s of the best of a few products of 1024 x 1024 x 1024 on `threads` threads, about 0.1 s of
// work. Accumulates in f32.
double measured_peak(DType compute, int threads);

}  // namespace trireme
