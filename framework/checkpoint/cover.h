// Do rectangles cover a matrix exactly once? The question behind "nothing is missing from this
// checkpoint, and nothing is in it twice".
#pragma once

#include <optional>
#include <vector>

#include "framework/checkpoint/logical.h"

namespace trireme {

struct CoverFault {
  std::int64_t row = 0, column = 0;  // the first such element, row-major
  bool doubled = false;              // else missing
};

// The rectangles are inside the matrix. Sweeps over the rows at which one begins or ends: time is
// their number times how many lie side by side.
std::optional<CoverFault> cover_fault(std::int64_t rows, std::int64_t columns,
                                      std::vector<Rectangle> rectangles);
// The first element that is in two of them, wherever they are.
std::optional<CoverFault> overlap(std::vector<Rectangle> rectangles);

}  // namespace trireme
