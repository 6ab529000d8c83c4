// A part of a unit's flat buffer: the whole of it, or a data rank's shard.
#pragma once

#include "framework/base/tensor.h"
#include "zero/flat_layout.h"

namespace trireme {

struct FlatTensor {
  Tensor data;  // range.size() elements
  Range range;  // which elements of the flat buffer they are
  // Elements `part` of the flat buffer; they must lie in the range.
  Tensor slice(Range part) const {
    return data.elements_at(part.begin - range.begin, {part.size()});
  }
};

}  // namespace trireme
