// What a template may use up. A stranger wrote it, so every loop, text and call is counted; the
// Error that ends it says which limit was reached.
#pragma once

#include <cstdint>

#include "framework/base/error.h"

namespace trireme::jinja {

struct Limits {
  std::int64_t steps = 1'000'000;               // evaluations, items of lists made
  std::int64_t output = std::int64_t{4} << 20;  // bytes
  std::int64_t made = std::int64_t{64} << 20;   // bytes of all texts made on the way
  int depth = 100;                              // of calls and blocks inside each other
};

class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}
  const Limits& limits() const { return limits_; }

  void step(std::int64_t steps = 1) {
    if (steps > limits_.steps - steps_) fail("it takes more than ", limits_.steps, " steps");
    steps_ += steps;
  }
  // A text of so many bytes is about to be made.
  void text(std::int64_t bytes) {
    if (bytes > limits_.output || bytes > limits_.made - made_)
      fail("it makes more than ", bytes > limits_.output ? limits_.output : limits_.made,
           " bytes of text");
    made_ += bytes;
    step(bytes / 256);
  }
  void enter() {
    if (++depth_ > limits_.depth) fail("more than ", limits_.depth, " calls lie in each other");
  }
  void leave() { --depth_; }

 private:
  Limits limits_;
  std::int64_t steps_ = 0, made_ = 0;
  int depth_ = 0;
};

}  // namespace trireme::jinja
