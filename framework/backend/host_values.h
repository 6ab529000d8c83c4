// Whole tensors as doubles on the host: initial values, checkpoints, tests. Not for the inside of a
// step.
#pragma once

#include <span>
#include <vector>

#include "framework/backend/backend.h"

namespace trireme {

// Converts through the tensor's type, to nearest even. Any floating type, any size.
void upload_doubles(Backend& backend, std::span<const double> values, const Tensor& to);
std::vector<double> download_doubles(Backend& backend, const Tensor& from);
void upload_ids(Backend& backend, std::span<const std::int32_t> ids, const Tensor& to);

}  // namespace trireme
