#include "zero/touches.h"

#include <algorithm>

#include "framework/base/error.h"

namespace trireme {

namespace {

class Walk {
 public:
  Walk(const std::vector<Use>& order, const TouchOptions& options)
      : order_(order),
        options_(options),
        split_(std::any_of(order.begin(), order.end(),
                           [](const Use& use) { return use.kind == Use::Kind::kBackwardWeight; })) {
  }

  std::vector<Touch> run() {
    for (std::size_t i = 0; i < order_.size();) i = take(i);
    return std::move(touches_);
  }

 private:
  // Touches of use i, or of the recomputed segment whose backward begins there. Returns the next.
  std::size_t take(std::size_t i) {
    switch (order_[i].kind) {
      case Use::Kind::kForward:
        add(Touch::Kind::kEnter, i);
        add(Touch::Kind::kLeave, i);
        return i + 1;
      case Use::Kind::kBackwardWeight:
        if (options_.late_release) add(Touch::Kind::kLeave, i);
        add(Touch::Kind::kEnd, i);
        return i + 1;
      default:
        break;
    }
    const std::size_t end = segment_end(i);
    for (std::size_t j = end; j > i; --j) add(Touch::Kind::kEnter, j - 1);
    for (std::size_t j = i; j < end; ++j) {
      add(Touch::Kind::kBegin, j);
      if (!split_ || !options_.late_release) add(Touch::Kind::kLeave, j);
      if (!split_) add(Touch::Kind::kEnd, j);
    }
    return end;
  }

  std::size_t segment_end(std::size_t i) const {
    std::size_t end = i + 1;
    const int segment = segment_of(order_[i]);
    if (segment < 0) return end;
    while (end < order_.size() && order_[end].action == order_[i].action &&
           segment_of(order_[end]) == segment)
      ++end;
    return end;
  }

  int segment_of(const Use& use) const {
    return options_.segments.empty() ? -1 : options_.segments[static_cast<std::size_t>(use.entry)];
  }

  void add(Touch::Kind kind, std::size_t i) {
    const Use& use = order_[i];
    touches_.push_back({kind, use.entry, use.micro, static_cast<std::int64_t>(i),
                        use.kind != Use::Kind::kForward});
  }

  const std::vector<Use>& order_;
  const TouchOptions& options_;
  bool split_;
  std::vector<Touch> touches_;
};

}  // namespace

std::vector<Touch> touches(const std::vector<Use>& order, const TouchOptions& options) {
  check(options.segments.empty() || std::ssize(options.segments) == options.entries,
        "touches: recomputed segments are given for ", options.segments.size(),
        " list entries, but there are ", options.entries);
  for (const Use& use : order)
    check(use.entry >= 0 && use.entry < options.entries, "touches: a use of list entry ", use.entry,
          ", but there are ", options.entries);
  return Walk(order, options).run();
}

}  // namespace trireme
