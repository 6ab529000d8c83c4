// Fingerprints are one number on every backend: of the bits, the key and the index of each element,
// however an array is cut.
#include "framework/backend/fingerprint.h"

#include "framework/base/error.h"
#include "tests/conformance/backend/backends.h"
#include "tests/support/tensors.h"

namespace trireme::test {
namespace {

constexpr std::uint64_t kKey = 0x123456789abcdef0ull;
constexpr std::int64_t kFirst = 41;

class Fingerprint : public ::testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    std::string why;
    backend_ = make(GetParam(), why);
    if (!backend_) GTEST_SKIP() << why;
  }
  DType compute() const { return GetParam().compute; }

  std::uint64_t of(Backend& backend, const Tensor& x, std::uint64_t key = kKey,
                   std::int64_t first = kFirst, std::uint64_t factor = 1, std::uint64_t start = 0) {
    double words[2];
    split_fingerprint(start, words);
    const Tensor out = tensor(backend, {2}, DType::kF64, {words[0], words[1]});
    backend.train_kernels()->fingerprint(x, key, first, factor, out);
    const std::vector<double> got = values(backend, out);
    for (double part : got) EXPECT_LT(part, 0x1p32);
    return joined_fingerprint(got[0], got[1]);
  }
  std::uint64_t of(const Tensor& x, std::uint64_t key = kKey, std::int64_t first = kFirst,
                   std::uint64_t factor = 1, std::uint64_t start = 0) {
    return of(*backend_, x, key, first, factor, start);
  }
  Tensor numbers(std::int64_t count) { return random_tensor(*backend_, {count}, compute(), 7); }

  std::unique_ptr<Backend> backend_;
};

TEST_P(Fingerprint, IsTheReferencesNumber) {
  const auto reference = make_reference_backend(std::make_shared<MemoryLedger>());
  for (std::int64_t count : {0, 1, 3, 7, 8, 9, 31, 64, 133, 70001})
    EXPECT_EQ(of(numbers(count)), of(*reference, random_tensor(*reference, {count}, compute(), 7)))
        << count;
  EXPECT_EQ(of(ids(*backend_, {3, -4, 5})), of(*reference, ids(*reference, {3, -4, 5})));
}

// The formula is part of what is compared over ranks, so its values are pinned.
TEST_P(Fingerprint, HasKnownValues) {
  EXPECT_EQ(of(numbers(0)), 0u);
  const std::uint64_t three = mixed_word(3 + fingerprint_offset(kKey, kFirst)),
                      four = mixed_word(4 + fingerprint_offset(kKey, kFirst + 1));
  EXPECT_EQ(of(ids(*backend_, {3, 4})), three + four);
  EXPECT_EQ(mixed_word(1), 0x85b0756e544e15beull);
}

TEST_P(Fingerprint, PartsAddUpToTheWhole) {  // also those that start at no multiple of a vector
  const Tensor x = numbers(1003);
  const std::uint64_t whole = of(x);
  for (std::int64_t cut : {0, 1, 5, 64, 501, 1002, 1003}) {
    const std::uint64_t first = of(x.elements_at(0, {cut}));
    EXPECT_EQ(first + of(x.elements_at(cut, {1003 - cut}), kKey, kFirst + cut), whole) << cut;
    EXPECT_EQ(of(x.elements_at(cut, {1003 - cut}), kKey, kFirst + cut, 1, first), whole) << cut;
  }
}

TEST_P(Fingerprint, IsTakenTimesTheFactorModulo2To64) {
  const Tensor x = numbers(1003);
  const std::uint64_t whole = of(x), minus = ~std::uint64_t{0};
  EXPECT_EQ(of(x, kKey, kFirst, 3), 3 * whole);
  EXPECT_EQ(of(x, kKey, kFirst, minus, whole), 0u);
  EXPECT_EQ(of(x, kKey, kFirst, 0, 99), 99u);
}

TEST_P(Fingerprint, EveryBitOfEveryElementCounts) {
  const std::int64_t count = 37, bytes = count * size_of(compute());
  const Tensor x = numbers(count), y = numbers(count);
  std::vector<unsigned char> raw(static_cast<std::size_t>(bytes));
  backend_->download(x, raw.data());
  const std::uint64_t whole = of(x);
  for (std::size_t bit = 0; bit < 8 * raw.size(); ++bit) {
    raw[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
    backend_->upload(raw.data(), y);
    EXPECT_NE(of(y), whole) << "bit " << bit;
    raw[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
  }
  EXPECT_NE(of(x, kKey + 1), whole);
  EXPECT_NE(of(x, kKey, kFirst + 1), whole);
}

TEST_P(Fingerprint, SeesElementsThatChangedPlacesAndTheSignOfZero) {
  const auto made = [&](const std::vector<double>& x) {
    return of(tensor(*backend_, {static_cast<std::int64_t>(x.size())}, compute(), x));
  };
  EXPECT_NE(made({1, 2, 3, 4}), made({1, 3, 2, 4}));
  EXPECT_NE(made({0.0, 1.0}), made({-0.0, 1.0}));
  EXPECT_NE(made({0.0, 0.0}), made({0.0, 0.0, 0.0}));
}

TEST_P(Fingerprint, RefusesAnotherOut) {
  const Tensor x = numbers(3);
  const Tensor wrong = backend_->zeros({3}, DType::kF64, MemoryKind::kWorkspace);
  EXPECT_THROW(backend_->train_kernels()->fingerprint(x, 1, 0, 1, wrong), Error);
  EXPECT_THROW(backend_->train_kernels()->fingerprint({}, 1, 0, 1, wrong), Error);
}

INSTANTIATE_TEST_SUITE_P(Backends, Fingerprint, ::testing::ValuesIn(all_targets()),
                         [](const auto& target) { return text(target.param); });

}  // namespace
}  // namespace trireme::test
