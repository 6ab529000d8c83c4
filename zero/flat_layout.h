// Where the parameters of a unit lie in its flat buffer, and which part of it each data rank owns.
// Pure arithmetic.
//
// Invariant: parameters follow each other without gaps in the order given; the buffer is padded
// with zeros to a multiple of ranks x 64 bytes, so that shards are equal and start on cache lines
// (ZeRO, arXiv 1910.02054, section 5). Segments map elements back to what a descriptor says about
// them; padding belongs to no segment.
//
// A unit that holds quantized weights (framework/backend/quantized.h) is laid out in bytes: one
// element is a byte, and what is not quantized beside them lies there in the compute type.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/autograd/parameter.h"
#include "framework/base/range.h"

namespace trireme {

// Elements that share one section of one parameter.
struct Segment {
  Range range;
  std::int64_t parameter = 0;  // index in the unit
  bool decay = true;
  bool counts_in_norm = true;
  SumGroup sum = SumGroup::kNone;
};

class FlatLayout {
 public:
  FlatLayout() = default;
  // `element_bytes`: of the narrowest flat buffer (the compute type). Frozen parameters are left
  // out of segments.
  FlatLayout(std::span<const ParameterSpec* const> parameters, int ranks,
             std::int64_t element_bytes);

  // Of bytes: parameters of these sizes, each from a multiple of 64 bytes on. Nothing of it is
  // trained: no segments.
  static FlatLayout of_bytes(std::span<const std::int64_t> sizes, int ranks);

  std::int64_t elements() const { return elements_; }  // without padding
  std::int64_t padded() const { return padded_; }      // a multiple of ranks
  int ranks() const { return ranks_; }
  std::int64_t offset(std::int64_t parameter) const {
    return offsets_[static_cast<std::size_t>(parameter)];
  }
  Range shard(int rank) const { return {padded_ / ranks_ * rank, padded_ / ranks_ * (rank + 1)}; }
  const std::vector<Segment>& segments() const { return segments_; }

 private:
  std::vector<std::int64_t> offsets_;
  std::vector<Segment> segments_;
  std::int64_t elements_ = 0, padded_ = 0;
  int ranks_ = 1;
};

}  // namespace trireme
