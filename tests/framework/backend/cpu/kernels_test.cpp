// What is the cpu backend's own: independence of length and alignment, tiles of the optimizers,
// refusals, the pool. Agreement with the reference, op by op, is the conformance suite's.
#include "framework/backend/cpu/pool.h"
#include "framework/base/error.h"
#include "tests/framework/backend/cpu/support.h"

namespace trireme::cpu_test {
namespace {

// Applies f to the same 100 numbers at every alignment and within every longer range.
template <typename F>
void same_wherever_they_lie(DType type, F f) {
  auto b = cpu(1);
  const Values numbers = random_values(100, 4);
  Values first;
  for (const std::int64_t offset : {0, 1, 3, 7, 15})
    for (const std::int64_t length : {100, 101, 116, 131}) {
      Values padded(static_cast<std::size_t>(offset + length), 0.5);
      std::copy(numbers.begin(), numbers.end(), padded.begin() + offset);
      const Tensor whole = upload(*b, {offset + length}, type, padded);
      const Tensor x = whole.elements_at(offset, {1, length});
      Values y = download(*b, f(*b, x));
      y.resize(100);
      if (first.empty()) first = y;
      EXPECT_EQ(y, first) << "offset " << offset << " length " << length;
    }
}

TEST(Tails, ElementwiseResultsDoNotDependOnLengthOrAlignment) {
  for (const DType type : {DType::kF32, DType::kBF16})
    for (const Activation act : {Activation::kGeluTanh, Activation::kSilu, Activation::kRelu})
      same_wherever_they_lie(type, [&](Backend& b, const Tensor& x) {
        const Tensor y = b.allocate(x.shape(), type, MemoryKind::kActivations);
        b.kernels()->activation(act, false, x, y);
        return y;
      });
}

TEST(Tails, NormsDoNotDependOnAlignment) {
  for (const std::int64_t columns : {1, 5, 16, 33, 100}) {
    Values first;
    for (const std::int64_t offset : {0, 1, 5}) {
      auto b = cpu(1);
      const Values v = random_values(3 * columns, 8);
      Values padded(static_cast<std::size_t>(offset), 9.0);
      padded.insert(padded.end(), v.begin(), v.end());
      const Tensor x =
          upload(*b, {offset + 3 * columns}, DType::kF32, padded).elements_at(offset, {3, columns});
      const Tensor weight = upload(*b, {columns}, DType::kF32, random_values(columns, 9));
      const Tensor y = b->allocate({3, columns}, DType::kF32, MemoryKind::kActivations);
      const Tensor stats = b->allocate({3, 1}, DType::kF32, MemoryKind::kActivations);
      b->kernels()->rms_norm(x, weight, 1e-5, y, stats);
      if (first.empty()) first = download(*b, y);
      EXPECT_EQ(download(*b, y), first);
    }
  }
}

TEST(Reductions, DoNotDependOnTheNumberOfThreads) {
  const std::int64_t rows = 333, columns = 70;
  Values sums, squares;
  for (const int threads : {1, 2, 5}) {
    auto b = cpu(threads);
    const Tensor x = upload(*b, {rows, columns}, DType::kF32, random_values(rows * columns, 6));
    const Tensor out = b->allocate({columns}, DType::kF32, MemoryKind::kGradients);
    b->train_kernels()->column_sum(x, out, false);
    const Tensor big = upload(*b, {300000}, DType::kF32, random_values(300000, 2));
    const Tensor total = b->zeros({2}, DType::kF64, MemoryKind::kWorkspace);
    b->train_kernels()->sum_of_squares(big, total);
    Values pair(2);
    b->download(total, pair.data());
    if (sums.empty()) sums = download(*b, out), squares = pair;
    EXPECT_EQ(download(*b, out), sums);
    EXPECT_EQ(pair, squares);
    EXPECT_EQ(pair[0], 0.0);
    EXPECT_NEAR(pair[1], 300000.0, 5000.0);
  }
}

struct Trained {
  Values w, m, v, copy;
  bool operator==(const Trained&) const = default;
};

// Three Adam steps on 1000 weights, each in tiles of the given sizes.
Trained adam(Backend& b, const std::vector<std::int64_t>& tiles, DType gradient) {
  const std::int64_t n = 1000;
  const Tensor w = upload(b, {n}, DType::kF32, random_values(n, 1));
  const Tensor m = b.zeros({n}, DType::kF32, MemoryKind::kOptimizer);
  const Tensor v = b.zeros({n}, DType::kF32, MemoryKind::kOptimizer);
  const Tensor copy = b.zeros({n}, DType::kBF16, MemoryKind::kParameters);
  for (int t = 1; t <= 3; ++t) {
    const Tensor g = upload(b, {n}, gradient, random_values(n, static_cast<std::uint64_t>(10 + t)));
    const AdamStep s{.lr = 0.01,
                     .weight_decay = 0.1,
                     .l2 = 0.003,
                     .bias1 = 1 - std::pow(0.9, t),
                     .bias2 = 1 - std::pow(0.999, t),
                     .gradient_factor = 0.37};
    std::int64_t at = 0;
    for (std::size_t i = 0; at < n; ++i) {
      const std::int64_t size = std::min(tiles[i % tiles.size()], n - at);
      const auto part = [&](const Tensor& x) { return x.elements_at(at, {size}); };
      b.train_kernels()->adam(s, part(w), part(m), part(v), part(g), part(copy));
      at += size;
    }
  }
  return {download(b, w), download(b, m), download(b, v), download(b, copy)};
}

TEST(Adam, AnySplitGivesTheBitsOfTheReference) {
  for (const DType gradient : {DType::kF32, DType::kBF16}) {
    auto r = reference();
    const Trained want = adam(*r, {1000}, gradient);
    for (const std::vector<std::int64_t>& tiles :
         {std::vector<std::int64_t>{1000}, {1}, {7, 16, 129}, {64}, {333}}) {
      auto b = cpu(2);
      EXPECT_TRUE(adam(*b, tiles, gradient) == want) << tiles[0];
    }
  }
}

TEST(Sgd, GivesTheBitsOfTheReference) {
  const auto train = [](Backend& b) {
    const Tensor w = upload(b, {203}, DType::kF32, random_values(203, 1));
    const Tensor m = b.zeros({203}, DType::kF32, MemoryKind::kOptimizer);
    for (int t = 0; t < 3; ++t) {
      const Tensor g =
          upload(b, {203}, DType::kF32, random_values(203, static_cast<std::uint64_t>(t)));
      b.train_kernels()->sgd({.lr = 0.1,
                              .momentum = 0.9,
                              .weight_decay = 0.01,
                              .gradient_factor = 0.5,
                              .first = t == 0},
                             w, m, g, {});
    }
    return download(b, w);
  };
  auto b = cpu(), r = reference();
  EXPECT_EQ(train(*b), train(*r));
}

TEST(CpuBackend, RefusesF64NamingTheReference) {
  auto b = cpu();
  const Tensor x = b->allocate({2, 2}, DType::kF64, MemoryKind::kActivations);
  EXPECT_FALSE(b->computes(DType::kF64));
  try {
    b->kernels()->matmul({.a = x, .b = x, .c = x});
    FAIL() << "an f64 product was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("device.kind = reference"), std::string::npos)
        << error.what();
  }
}

TEST(CpuBackend, MatmulOfAnyStrideAndEmptySums) {
  auto b = cpu(), r = reference();
  const auto product = [](Backend& back, std::int64_t k) {
    Tensor x = upload(back, {k, 5}, DType::kF32, random_values(5 * k, 1));
    Tensor y = upload(back, {3, k}, DType::kF32, random_values(3 * k, 2));
    Tensor bias = upload(back, {3}, DType::kF16, random_values(3, 3));
    Tensor c = back.allocate({5, 3}, DType::kF32, MemoryKind::kActivations);
    back.kernels()->matmul(
        {.a = x, .b = y, .c = c, .transpose_a = true, .transpose_b = true, .bias = bias});
    return download(back, c);
  };
  for (const std::int64_t k : {0, 1, 17}) EXPECT_LT(distance(product(*b, k), product(*r, k)), 1e-6);
}

TEST(CpuBackend, CountsRequestedBytesAndItsScratch) {
  auto ledger = std::make_shared<MemoryLedger>();
  auto b = make_cpu_backend(ledger, 1);
  {
    const Tensor x = b->allocate({3, 7}, DType::kF32, MemoryKind::kActivations);
    EXPECT_EQ(ledger->current(Tier::kDevice), 84);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.data()) % 64, 0u);
  }
  EXPECT_EQ(ledger->current(Tier::kDevice), 0);
  ledger->set_limit(Tier::kDevice, 100);
  EXPECT_THROW(b->allocate({200}, DType::kU8, MemoryKind::kActivations), Error);
  EXPECT_EQ(ledger->current(Tier::kDevice), 0);
}

TEST(CpuBackend, MemoryOutlivesTheBackend) {
  auto ledger = std::make_shared<MemoryLedger>();
  auto b = make_cpu_backend(ledger, 1);
  Tensor x = b->zeros({1000}, DType::kF32, MemoryKind::kActivations);
  b.reset();
  EXPECT_EQ(x.as<float>()[999], 0.0f);
  x = {};
  EXPECT_EQ(ledger->current(Tier::kDevice), 0);
}

TEST(Pool, ReusesBlocksAndBoundsWhatItKeeps) {
  Pool pool;
  void* first = pool.take(5000);
  pool.give(first);
  EXPECT_EQ(pool.kept_bytes(), Pool::rounded(5000));
  EXPECT_EQ(pool.take(4990), first);  // a little smaller: the warm block
  EXPECT_EQ(pool.kept_bytes(), 0);
  pool.give(first);

  constexpr std::int64_t kMiB = 1 << 20;
  for (std::int64_t size = 40; size < 400; size += 40) {  // never two at once
    void* block = pool.take(size * kMiB);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % (2 * kMiB), 0u);
    pool.give(block);
    EXPECT_LE(pool.kept_bytes(), Pool::rounded(size * kMiB) + 32 * kMiB);
  }
}

TEST(Pool, RoundsByAtMostAnEighthOrAHugePage) {
  for (std::int64_t bytes = 1; bytes < (std::int64_t{1} << 36); bytes = bytes * 3 / 2 + 1) {
    const std::int64_t size = Pool::rounded(bytes);
    EXPECT_GE(size, bytes);
    EXPECT_EQ(size % 64, 0);
    EXPECT_LE(size - bytes,
              std::max<std::int64_t>({64, bytes / 8 + 64, bytes >= (2 << 20) ? (2 << 20) : 0}));
  }
}

}  // namespace
}  // namespace trireme::cpu_test
