// Clock and medians of the bench programs.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

namespace trireme {

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double timed(const std::function<void()>& work) {
  const double begin = seconds_now();
  work();
  return seconds_now() - begin;
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace trireme
