// The flattened order of a schedule, as the units see it: when a list entry's weights must be there
// and may go, and when its gradients begin and end.
//
// Data, known before a pass and equal on all data ranks; made from pipeline's uses, which name list
// entries only. What Sharded and Recompute do at run time is exactly this sequence (Residency
// checks that it is), so traffic, live parameters and peaks are computed from it.
#pragma once

#include <vector>

#include "pipeline/uses.h"

namespace trireme {

struct Touch {
  enum class Kind : std::uint8_t {
    kEnter,  // weights must be whole
    kLeave,  // this use needs them no longer
    kBegin,  // gradients of one backward use begin
    kEnd,    // and are complete: may be reduced
  };
  Kind kind = Kind::kEnter;
  int entry = 0;
  int micro = 0;
  std::int64_t use = 0;   // index of the use in the flattened order
  bool backward = false;  // belongs to a backward pass, a recomputed forward included
  bool operator==(const Touch&) const = default;
};

struct TouchOptions {
  // For each list entry the number of its recomputed segment, -1 if it is not recomputed. Entries
  // of a segment are neighbours in one chunk.
  std::vector<int> segments;
  // Weights stay until the weight half of a split backward, which makes cheap outputs again
  // (Context::remake_cheap_outputs).
  bool late_release = false;
  int entries = 0;
};

// Forward: enter, leave per entry. Backward of a plain entry: enter, begin, leave, end. Of a
// recomputed segment e1..ek: enter e1 ... enter ek (run again in forward order, weights kept), then
// begin, leave, end of ek ... e1. When the backward is split (the order has weight halves), ends
// and late leaves come with the weight half, entries in backward order.
std::vector<Touch> touches(const std::vector<Use>& order, const TouchOptions& options);

}  // namespace trireme
