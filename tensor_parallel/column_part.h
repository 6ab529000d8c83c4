// A part of a column-parallel linear's output rows.
#pragma once

#include <cstdint>
#include <string>

#include "framework/autograd/parameter.h"

namespace trireme {

// A group of output rows that is a logical tensor of its own, e.g. the key heads of a fused
// projection.
struct ColumnPart {
  std::string name;               // tensors `name`.weight and `name`.bias
  std::int64_t logical_rows = 0;  // N of the whole tensor
  std::int64_t global_row = 0;    // first of this rank's rows in it
  std::int64_t rows = 0;          // this rank's rows
  SumGroup sum = SumGroup::kNone;
  bool counts_in_norm = true;
};

}  // namespace trireme
