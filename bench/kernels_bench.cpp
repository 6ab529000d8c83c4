// Rates of the cpu backend's kernels at the sizes of a GPT-2 124M step (2,048 rows, 768 channels):
// GEMM peak and memory read rate first, since everything else is judged as a fraction of them.
//
// The number of threads is the first argument (default 2); the rest goes to Google Benchmark.
// Repeat and interleave for figures worth quoting:
//   kernels_bench 2 --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "framework/backend/backend.h"

namespace trireme {
namespace {

using benchmark::Counter;
using benchmark::State;

struct Bench {
  std::unique_ptr<Backend> backend;

  explicit Bench(int threads)
      : backend(make_cpu_backend(std::make_shared<MemoryLedger>(), threads)) {}

  // Numbers in [-1, 1) that repeat: values do not change the time, but denormals and zeros might.
  Tensor filled(Shape shape, DType type) {
    const Tensor wide = backend->allocate(shape, DType::kF32, MemoryKind::kActivations);
    std::vector<float> host(static_cast<std::size_t>(wide.elements()));
    std::uint32_t state = 1;
    for (float& x : host) {
      state = state * 1664525u + 1013904223u;
      x = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
    }
    backend->upload(host.data(), wide);
    if (type == DType::kF32) return wide;
    const Tensor narrow = backend->allocate(shape, type, MemoryKind::kActivations);
    backend->kernels()->cast(wide, narrow);
    return narrow;
  }
  Tensor empty(Shape shape, DType type) {
    return backend->allocate(shape, type, MemoryKind::kActivations);
  }
};

void count_flops(State& state, double flops) {
  state.counters["GFLOP/s"] = Counter(flops * 1e-9, Counter::kIsIterationInvariantRate);
}
void count_bytes(State& state, double bytes) {
  state.counters["GB/s"] = Counter(bytes * 1e-9, Counter::kIsIterationInvariantRate);
}

constexpr std::int64_t kRows = 2048, kWide = 3072, kChannels = 768;

void gemm_forward(State& state, Bench& b, DType type) {
  const Tensor x = b.filled({kRows, kChannels}, type), w = b.filled({kWide, kChannels}, type);
  const Tensor bias = b.filled({kWide}, type), y = b.empty({kRows, kWide}, type);
  for (auto _ : state)
    b.backend->kernels()->matmul({.a = x, .b = w, .c = y, .transpose_b = true, .bias = bias});
  count_flops(state, 2.0 * kRows * kWide * kChannels);
}

void gemm_dx(State& state, Bench& b, DType type) {
  const Tensor dy = b.filled({kRows, kWide}, type), w = b.filled({kWide, kChannels}, type);
  const Tensor dx = b.empty({kRows, kChannels}, type);
  for (auto _ : state) b.backend->kernels()->matmul({.a = dy, .b = w, .c = dx});
  count_flops(state, 2.0 * kRows * kWide * kChannels);
}

void gemm_dw(State& state, Bench& b, DType type) {
  const Tensor dy = b.filled({kRows, kWide}, type), x = b.filled({kRows, kChannels}, type);
  const Tensor dw = b.backend->zeros({kWide, kChannels}, DType::kF32, MemoryKind::kGradients);
  for (auto _ : state)
    b.backend->kernels()->matmul(
        {.a = dy, .b = x, .c = dw, .transpose_a = true, .accumulate = true});
  count_flops(state, 2.0 * kRows * kWide * kChannels);
}

// A read pass over 512 MiB: the sum of squares of f32.
void read_rate(State& state, Bench& b) {
  const Tensor x = b.filled({std::int64_t{128} << 20}, DType::kF32);
  const Tensor out = b.backend->zeros({2}, DType::kF64, MemoryKind::kWorkspace);
  for (auto _ : state) b.backend->train_kernels()->sum_of_squares(x, out);
  count_bytes(state, static_cast<double>(x.bytes()));
}

// The same pass as a fingerprint.
void fingerprint_rate(State& state, Bench& b, DType type) {
  const Tensor x = b.filled({(std::int64_t{512} << 20) / size_of(type)}, type);
  const Tensor out = b.backend->zeros({2}, DType::kF64, MemoryKind::kWorkspace);
  for (auto _ : state) b.backend->train_kernels()->fingerprint(x, 1, 0, 1, out);
  count_bytes(state, static_cast<double>(x.bytes()));
}

// 48 heads in all, as four sequences of GPT-2 have.
Attention attention_of(std::int64_t tokens) {
  return {
      .batch = 4, .tokens = tokens, .heads = 12, .kv_heads = 12, .head_dim = 64, .scale = 0.125};
}

struct AttentionOperands {
  Tensor qkv, out, lse, dout, dqkv;
  AttentionOperands(Bench& b, const Attention& a, DType type)
      : qkv(b.filled({a.batch * a.tokens, 3 * a.heads * a.head_dim}, type)),
        out(b.empty({a.batch * a.tokens, a.heads * a.head_dim}, type)),
        lse(b.empty({a.batch * a.heads, a.tokens}, DType::kF32)),
        dout(b.filled({a.batch * a.tokens, a.heads * a.head_dim}, type)),
        dqkv(b.empty({a.batch * a.tokens, 3 * a.heads * a.head_dim}, type)) {}
};

// FLOPs of one T x T x D product over all heads, the causal half.
double product_flops(const Attention& a) {
  const auto t = static_cast<double>(a.tokens);
  return static_cast<double>(a.batch * a.heads * a.head_dim) * t * t;
}

void attention_forward(State& state, Bench& b, DType type, std::int64_t tokens) {
  const Attention a = attention_of(tokens);
  const AttentionOperands o(b, a, type);
  for (auto _ : state) b.backend->kernels()->attention(a, o.qkv, o.out, o.lse);
  count_flops(state, 2 * product_flops(a));
}

void attention_backward(State& state, Bench& b, DType type, std::int64_t tokens) {
  const Attention a = attention_of(tokens);
  const AttentionOperands o(b, a, type);
  b.backend->kernels()->attention(a, o.qkv, o.out, o.lse);
  for (auto _ : state)
    b.backend->train_kernels()->attention_backward(a, o.qkv, o.out, o.lse, o.dout, o.dqkv);
  count_flops(state, 5 * product_flops(a));
}

void adamw(State& state, Bench& b, DType copy_type) {
  const std::int64_t n = std::int64_t{64} << 20;
  const Tensor w = b.filled({n}, DType::kF32), g = b.filled({n}, DType::kF32);
  const Tensor m = b.backend->zeros({n}, DType::kF32, MemoryKind::kOptimizer);
  const Tensor v = b.backend->zeros({n}, DType::kF32, MemoryKind::kOptimizer);
  const Tensor copy = copy_type == DType::kF32 ? Tensor() : b.filled({n}, copy_type);
  const AdamStep step{.lr = 1e-4, .weight_decay = 0.1, .bias1 = 0.1, .bias2 = 0.001};
  for (auto _ : state) b.backend->train_kernels()->adam(step, w, m, v, g, copy);
  state.counters["ns/param"] =
      Counter(static_cast<double>(n) * 1e-9, Counter::kIsIterationInvariantRate | Counter::kInvert);
  count_bytes(state, static_cast<double>(n) * (copy ? 30 : 28));
}

void layer_norm_forward(State& state, Bench& b, DType type) {
  const Tensor x = b.filled({kRows, kChannels}, DType::kF32), w = b.filled({kChannels}, type);
  const Tensor y = b.empty({kRows, kChannels}, type), stats = b.empty({kRows, 2}, DType::kF32);
  for (auto _ : state) b.backend->kernels()->layer_norm(x, w, w, 1e-5, y, stats);
}

void layer_norm_backward(State& state, Bench& b, DType type) {
  const Tensor x = b.filled({kRows, kChannels}, DType::kF32), w = b.filled({kChannels}, type);
  const Tensor y = b.empty({kRows, kChannels}, type), stats = b.empty({kRows, 2}, DType::kF32);
  const Tensor dx = b.filled({kRows, kChannels}, DType::kF32);
  const Tensor dw = b.filled({kChannels}, DType::kF32), db = b.filled({kChannels}, DType::kF32);
  b.backend->kernels()->layer_norm(x, w, w, 1e-5, y, stats);
  for (auto _ : state)
    b.backend->train_kernels()->layer_norm_backward(x, w, stats, y, dx, false, dw, db, false);
}

void gelu_forward(State& state, Bench& b, DType type) {
  const Tensor x = b.filled({kRows, kWide}, type), y = b.empty({kRows, kWide}, type);
  for (auto _ : state) b.backend->kernels()->activation(Activation::kGeluTanh, false, x, y);
}

void gelu_backward(State& state, Bench& b, DType type) {
  const Tensor x = b.filled({kRows, kWide}, type), dy = b.filled({kRows, kWide}, type);
  const Tensor dx = b.empty({kRows, kWide}, type);
  for (auto _ : state)
    b.backend->train_kernels()->activation_backward(Activation::kGeluTanh, false, x, dy, dx);
}

// One chunk of 256 tokens of f32 logits: maxima, sums, gradient.
void cross_entropy(State& state, Bench& b, DType gradient) {
  const std::int64_t rows = 256, columns = 50304;
  const CrossEntropy c{.valid = 50257, .vocab = 50257};
  const Tensor logits = b.filled({rows, columns}, DType::kF32);
  const Tensor dlogits = b.empty({rows, columns}, gradient);
  const Tensor max = b.empty({rows}, DType::kF32), sums = b.empty({rows, 3}, DType::kF32);
  const Tensor labels = b.backend->zeros({rows}, DType::kI32, MemoryKind::kActivations);
  for (auto _ : state) {
    b.backend->kernels()->row_max(c, logits, max);
    b.backend->kernels()->cross_entropy_sums(c, logits, max, labels, sums);
    b.backend->train_kernels()->cross_entropy_backward(c, logits, max, sums, labels, 1e-3, dlogits);
  }
  state.counters["ns/logit"] = Counter(static_cast<double>(rows * columns) * 1e-9,
                                       Counter::kIsIterationInvariantRate | Counter::kInvert);
}

template <typename F>
void add(const std::string& name, F f) {
  benchmark::RegisterBenchmark(name.c_str(), f)->UseRealTime()->Unit(benchmark::kMillisecond);
}

void add_all(Bench& b) {
  add("read_rate", [&b](State& s) { read_rate(s, b); });
  for (const DType type : {DType::kF32, DType::kBF16}) {
    if (!b.backend->computes(type)) continue;
    const std::string name = "/" + std::string(name_of(type));
    add("fingerprint_rate" + name, [&b, type](State& s) { fingerprint_rate(s, b, type); });
    add("gemm_forward" + name, [&b, type](State& s) { gemm_forward(s, b, type); });
    add("gemm_dx" + name, [&b, type](State& s) { gemm_dx(s, b, type); });
    add("gemm_dw" + name, [&b, type](State& s) { gemm_dw(s, b, type); });
    for (const std::int64_t tokens : {512, 2048}) {
      const std::string at = name + "/" + std::to_string(tokens);
      add("attention_forward" + at, [=, &b](State& s) { attention_forward(s, b, type, tokens); });
      add("attention_backward" + at, [=, &b](State& s) { attention_backward(s, b, type, tokens); });
    }
    add("adamw_copy" + name, [&b, type](State& s) { adamw(s, b, type); });
    add("layer_norm_forward" + name, [&b, type](State& s) { layer_norm_forward(s, b, type); });
    add("layer_norm_backward" + name, [&b, type](State& s) { layer_norm_backward(s, b, type); });
    add("gelu_forward" + name, [&b, type](State& s) { gelu_forward(s, b, type); });
    add("gelu_backward" + name, [&b, type](State& s) { gelu_backward(s, b, type); });
    add("cross_entropy" + name, [&b, type](State& s) { cross_entropy(s, b, type); });
  }
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  int threads = 2;
  if (argc > 1 && argv[1][0] != '-') {
    threads = std::atoi(argv[1]);
    argv[1] = argv[0];
    ++argv, --argc;
  }
  trireme::Bench bench(threads);
  trireme::add_all(bench);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
