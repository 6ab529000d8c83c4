// For how long somebody has waited, for a deadline: the time in which it could look.
//
// A process that was stopped and goes on (Ctrl-Z, a debugger, a frozen container) did not wait
// meanwhile, and what it waits for was often stopped with it: between two looks at most so many
// seconds count. One that looks more often than that waits for as long as the clock says.
// Seconds, of any clock that does not go back. One thread.
#pragma once

#include <algorithm>
#include <limits>

namespace trireme {

class Patience {
 public:
  static constexpr double kAllOfIt = std::numeric_limits<double>::infinity();

  Patience(double now, double most_between_looks) : last_(now), most_(most_between_looks) {}

  // A look.
  double waited(double now) {
    waited_ += std::min(now - last_, most_);
    last_ = now;
    return waited_;
  }

 private:
  double last_, most_;
  double waited_ = 0;
};

}  // namespace trireme
