// What every backend must hold when it trains whole models, beside the f64 matrix of tests/parity.
#pragma once

#include <vector>

#include "tests/parity/train_layout.h"

namespace trireme::parity {

inline constexpr MeshShape kCube{.data = 2, .pipeline = 2, .tensor = 2};

// Four layouts that have everything once; `model` leaves out what it cannot do.
std::vector<Layout> some_layouts(const ModelOptions& model);

// Dropout, and plain SGD with momentum: a key bias has a gradient of pure rounding noise, which
// Adam would blow up.
Task f32_task(const ModelOptions& model);

// Loss, norm, first gradients and weights as the serial run's, to 1e-5.
void expect_f32_parity(const Task& task);

// 16-bit compute with f32 masters, serial and on a cube of ranks, follows the f64 run of the
// reference within 1 % for 50 steps of AdamW; f16 with a dynamic loss scale.
void expect_narrow_parity(Task task, DType narrow);

}  // namespace trireme::parity
