// Time per parameter of the cpu backend's AdamW: f32 master, moments and gradient, no 16-bit copy;
// and a triad (z = x + 2 y) of the same length and threads, to judge it by.
//
//   adam_bench [--params=100000000] [--steps=5] [--threads=2]
// One line of JSON each, like a peer's: the fastest step after a first that is not counted.
// bench/adam_ratio.sh runs it beside a peer.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bench/flags.h"
#include "bench/timing.h"
#include "framework/backend/backend.h"

namespace trireme {
namespace {

double fastest(std::int64_t steps, const std::function<void()>& work) {
  double best = 0;
  for (std::int64_t i = 0; i <= steps; ++i) {
    const double seconds = timed(work);
    if (i > 0) best = i == 1 ? seconds : std::min(best, seconds);
  }
  return best;
}

// Values in [-1, 1) that repeat: no denormals.
Tensor filled(Backend& backend, std::int64_t n, float scale) {
  const Tensor x = backend.allocate({n}, DType::kF32, MemoryKind::kOptimizer);
  std::vector<float> values(static_cast<std::size_t>(n));
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = (static_cast<float>(state >> 8) * 0x1p-23f - 1.0f) * scale;
  }
  backend.upload(values.data(), x);
  return x;
}

void triad(const float* x, const float* y, float* z, std::int64_t n, int threads) {
  std::vector<std::thread> team;
  for (int t = 0; t < threads; ++t)
    team.emplace_back([=] {
      for (std::int64_t i = n * t / threads; i < n * (t + 1) / threads; ++i) z[i] = x[i] + 2 * y[i];
    });
  for (std::thread& thread : team) thread.join();
}

void print(const char* what, double seconds, std::int64_t params, double bytes) {
  const auto n = static_cast<double>(params);
  std::printf("{\"bench\": \"%s\", \"ns_per_param\": %.3f, \"gb_per_s\": %.1f}\n", what,
              seconds / n * 1e9, bytes * n / seconds / 1e9);
}

void run(const BenchFlags& flags) {
  const std::int64_t n = flags.number("params", 100'000'000), steps = flags.number("steps", 5);
  const int threads = static_cast<int>(flags.number("threads", 2));
  flags.expect_no_others();
  const auto backend = make_cpu_backend(std::make_shared<MemoryLedger>(), threads);
  const Tensor w = filled(*backend, n, 1), g = filled(*backend, n, 1e-3f);
  const Tensor m = backend->zeros({n}, DType::kF32, MemoryKind::kOptimizer);
  const Tensor v = backend->zeros({n}, DType::kF32, MemoryKind::kOptimizer);
  const AdamStep step{.lr = 1e-3, .weight_decay = 0.01, .bias1 = 0.1, .bias2 = 0.001};
  const double adam =
      fastest(steps, [&] { backend->train_kernels()->adam(step, w, m, v, g, Tensor()); });
  print("adam", adam, n, 28);
  const double add = fastest(steps, [&] {
    triad(static_cast<const float*>(w.data()), static_cast<const float*>(g.data()),
          static_cast<float*>(m.data()), n, threads);
  });
  print("triad", add, n, 12);
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) try {
  trireme::run(trireme::BenchFlags(argc, argv));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
