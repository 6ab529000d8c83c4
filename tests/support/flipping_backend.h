// A reference backend that can compute wrong: after a kernel wrote an operand, a hook may change
// it. What a flipped bit in a processor or its memory does to a rank, for tests that must find it.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "framework/backend/reference_backend.h"

namespace trireme::test {

// Told each operand that a kernel just wrote: "matmul", "adam m", ... (flipping_backend.cpp has the
// names). May write to it; called inside the backend.
using AfterKernel = std::function<void(std::string_view written, const Tensor& out)>;

std::unique_ptr<Backend> make_flipping_backend(std::shared_ptr<MemoryLedger> ledger,
                                               AfterKernel after);

// Flips bit `bit` of element `element` of a tensor in memory that this thread may touch.
void flip_bit(const Tensor& x, std::int64_t element, int bit);

}  // namespace trireme::test
