// The position of each row as Positions tells it, for backends whose tensors are host memory.
#pragma once

#include "framework/backend/kernels.h"

namespace trireme {

class RowPositions {
 public:
  explicit RowPositions(const Positions& p)
      : tokens_(p.tokens),
        first_row_(p.first_row),
        first_position_(p.first_position),
        starts_(p.document_starts ? p.document_starts.as<std::int32_t>() : nullptr) {}

  std::int64_t operator()(std::int64_t row) const {
    const std::int64_t all = first_row_ + row;
    return all % tokens_ - (starts_ ? starts_[all] : 0) + first_position_;
  }

 private:
  std::int64_t tokens_, first_row_, first_position_;
  const std::int32_t* starts_;
};

}  // namespace trireme
