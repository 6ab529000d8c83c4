// Work shared among a rank's OpenMP threads. Ranges are cut by element or row number only, and no
// function here makes a result depend on which thread ran what.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace trireme {

// f(begin, end) on contiguous parts of [0, n), one per thread; parts hold at least `grain` items.
// f must not throw.
template <typename F>
void parallel_ranges(int threads, std::int64_t n, std::int64_t grain, F f) {
  const int team = static_cast<int>(std::min<std::int64_t>(
      threads, std::max<std::int64_t>(1, n / std::max<std::int64_t>(1, grain))));
  if (team <= 1) {
    const F mine = f;
    return mine(std::int64_t{0}, n);
  }
#pragma omp parallel num_threads(team)
  {
    const std::int64_t t = omp_get_thread_num(), count = omp_get_num_threads();
    const F mine = f;  // a copy of the captures that no store can alias
    mine(n * t / count, n * (t + 1) / count);
  }
}

// f(task, thread) for every task in [0, n), in any order. f must not throw.
template <typename F>
void parallel_tasks(int threads, std::int64_t n, F f) {
  const int team = static_cast<int>(std::min<std::int64_t>(threads, n));
  if (team <= 1) {
    for (std::int64_t i = 0; i < n; ++i) f(i, 0);
    return;
  }
#pragma omp parallel for num_threads(team) schedule(dynamic, 1)
  for (std::int64_t i = 0; i < n; ++i) f(i, omp_get_thread_num());
}

}  // namespace trireme
