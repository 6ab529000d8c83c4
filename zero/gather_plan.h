// Which weights are whole when, at ZeRO stage 3, decided before a pass from the order of its uses:
// what to fetch ahead, where a unit's last use is, and whether the live parameters stay within
// their bound. Pure data; Residency carries it out.
//
// A unit is *held* over intervals of touches. Every use lies in one; the gaps between uses are
// bridged as `reshard` says:
//   forward   released after each use
//   backward  kept while some micro-batch has had its forward use but not its backward use
//   step      kept from the first use of the pass to the last
// and, in all modes, where the very next touch that enters is of the same unit again (the turn from
// forward to backward: the last layer is never gathered twice). That never raises the peak.
// Each interval begins with one gather: their number is the pass's traffic. With prefetch the
// gather of the next entry that is not yet there starts at the enter before, if the bound allows
// (depth 1); it never starts earlier than the previous interval of that unit ended. Sources: ZeRO-3
// arXiv 1910.02054, 2104.07857 section 6.2.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zero/touches.h"

namespace trireme {

enum class Reshard : std::uint8_t { kForward, kBackward, kStep };

struct GatherPlanOptions {
  std::vector<std::vector<int>> users;  // list entries that use unit u
  std::vector<std::int64_t> elements;   // of unit u, padded
  Reshard reshard = Reshard::kForward;
  bool prefetch = true;
  std::int64_t max_live = 0;  // elements; 0 = no bound
};

class GatherPlan {
 public:
  GatherPlan() = default;
  // Throws UsageError when uses and bridged gaps alone exceed max_live, naming the bound, the
  // smallest bound that would do for this reshard mode and these entries (another pipeline stage
  // may need more), and the entry where it is reached. A prefetch that would exceed it is left out
  // instead.
  GatherPlan(std::vector<Touch> touches, const GatherPlanOptions& options);

  const std::vector<Touch>& touches() const { return touches_; }
  // Units whose gather starts before touch i's use computes, in order: first those that touch i
  // itself needs, then those fetched ahead. Only at enters.
  const std::vector<int>& starts(std::size_t i) const { return starts_[i]; }
  // Units that are let go after touch i. Only at leaves.
  const std::vector<int>& ends(std::size_t i) const { return ends_[i]; }

  std::int64_t gathers(int unit) const;                              // in the whole pass
  std::int64_t peak_live() const { return peak_live_; }              // elements, at any moment
  std::int64_t live_after(std::size_t i) const { return live_[i]; }  // once touch i's starts / ends

 private:
  void prefetch(const GatherPlanOptions& options);
  void add_live(std::size_t begin, std::size_t end, std::int64_t elements);

  std::vector<Touch> touches_;
  std::vector<std::vector<int>> starts_, ends_;
  std::vector<std::int64_t> live_;
  std::vector<std::int64_t> gathers_;
  std::int64_t peak_live_ = 0;
};

}  // namespace trireme
