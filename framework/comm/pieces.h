// Arithmetic on raw operands that the transports share. Internal to framework/comm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "framework/base/tensor.h"
#include "framework/comm/call.h"

namespace trireme {

class Backend;

// A tensor over memory that somebody else owns. It keeps nothing alive: a peer's operand must not
// gain owners here, or its sole_owner() would depend on timing.
Tensor borrowed(const std::byte* memory, std::int64_t elements, DType dtype);

// out = the sum (or maximum) of the pieces in the order given, in the wide type, rounded once.
// out may be one of the pieces.
void reduce_in_order(Backend& backend, CallKind kind, const std::vector<Tensor>& pieces,
                     const Tensor& out);
// Copies unless both are the same memory or empty.
void copy_apart(Backend& backend, const Tensor& from, const Tensor& to);

}  // namespace trireme
