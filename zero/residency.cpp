#include "zero/residency.h"

#include "framework/base/error.h"

namespace trireme {

void Residency::begin(const GatherPlan& plan) {
  check(!plan_, "zero: a pass begins while another one holds weights");
  plan_ = &plan;
  at_ = 0;
}

// Gradients have touches of their own, which move no weights.
std::size_t Residency::next(Touch::Kind kind, int entry) {
  const std::vector<Touch>& all = plan_->touches();
  while (at_ < all.size() && all[at_].kind != Touch::Kind::kEnter &&
         all[at_].kind != Touch::Kind::kLeave)
    ++at_;
  const bool leaves = kind == Touch::Kind::kLeave;
  check(at_ < all.size() && all[at_].kind == kind && all[at_].entry == entry, "zero: list entry ",
        entry, leaves ? " is left" : " is entered", " at touch ", at_, " of ", all.size(),
        ", which is not what the schedule's order says");
  return at_++;
}

void Residency::enter(int entry) {
  if (!plan_) return;
  for (const int unit : plan_->starts(next(Touch::Kind::kEnter, entry)))
    units_[static_cast<std::size_t>(unit)]->hold();
  for (std::size_t i = at_; i < plan_->touches().size(); ++i)
    if (const std::vector<int>& coming = plan_->starts(i); !coming.empty())
      return units_[static_cast<std::size_t>(coming.front())]->weights().read_ahead();
}

void Residency::leave(int entry) {
  if (!plan_) return;
  for (const int unit : plan_->ends(next(Touch::Kind::kLeave, entry)))
    units_[static_cast<std::size_t>(unit)]->release();
}

void Residency::end() {
  const std::vector<Touch>& all = plan_->touches();
  for (; at_ < all.size(); ++at_)
    check(all[at_].kind != Touch::Kind::kEnter && all[at_].kind != Touch::Kind::kLeave,
          "zero: the pass ended at touch ", at_, " of ", all.size());
  plan_ = nullptr;
}

}  // namespace trireme
