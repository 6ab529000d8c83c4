#include "framework/backend/cpu/vector.h"

#include <limits>
#include <random>

#include "framework/backend/cpu/random_words.h"
#include "tests/framework/backend/cpu/support.h"

namespace trireme::cpu_test {
namespace {

TEST(Vector, ExponentialsAreAccurate) {
  for (int i = -8600; i <= 8700; ++i) {
    const float x = static_cast<float>(i) * 0.01f + 0.0037f;
    const double want = std::exp(static_cast<double>(x));
    EXPECT_NEAR(vec::exp(vec::set1(x))[0] / want, 1.0, 2.5e-7) << x;
    const float y = x * 1.4f;
    if (std::abs(y) > 125) continue;
    EXPECT_NEAR(vec::exp2(vec::set1(y))[0] / std::exp2(static_cast<double>(y)), 1.0, 2.5e-7) << y;
  }
}

TEST(Vector, ExponentialKeepsNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(vec::exp(vec::set1(nan))[0]));
  EXPECT_TRUE(std::isnan(vec::exp2(vec::set1(nan))[0]));
}

TEST(Vector, BFloat16RoundsLikeTheScalarType) {
  std::mt19937 bits(5);
  for (int i = 0; i < 200000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits()));
    const std::uint16_t have = vec::to_bf16(vec::set1(x))[0];
    ASSERT_EQ(have, BFloat16(x).bits) << x;
  }
}

TEST(Vector, HalfRoundsLikeTheScalarType) {
  for (int i = 0; i < 20000; ++i) {
    const float x =
        static_cast<float>(random_normal(key_from_seed(3), static_cast<std::uint64_t>(i)) * 300.0);
    const std::uint16_t have = vec::to_f16(vec::set1(x))[0];
    ASSERT_EQ(have, Float16(x).bits) << x;
  }
}

TEST(Vector, PartialLoadsAndStoresTouchOnlyTheirLanes) {
  for (int n = 0; n <= vec::kLanes; ++n) {
    std::vector<float> in(static_cast<std::size_t>(n), 3.0f), out(vec::kLanes, -1.0f);
    const vec::F32 v = vec::load(in.data(), n);
    vec::store(out.data(), v + 1.0f, n);
    for (int i = 0; i < vec::kLanes; ++i) {
      EXPECT_EQ(v[i], i < n ? 3.0f : 0.0f);
      EXPECT_EQ(out[static_cast<std::size_t>(i)], i < n ? 4.0f : -1.0f);
    }
    std::vector<std::uint16_t> words(vec::kLanes, 7);
    vec::store(words.data(), vec::to_bf16(vec::set1(1.0f)), n);
    for (int i = 0; i < vec::kLanes; ++i)
      EXPECT_EQ(words[static_cast<std::size_t>(i)], i < n ? 0x3f80 : 7) << n;
  }
}

TEST(Vector, FourSumsAreFourTimesOne) {
  vec::F32 v[4];
  for (int i = 0; i < 4; ++i)
    for (int lane = 0; lane < vec::kLanes; ++lane)
      v[i][lane] = static_cast<float>(
          random_normal(key_from_seed(4), static_cast<std::uint64_t>(i * vec::kLanes + lane)));
  float four[4];
  _mm_storeu_ps(four, vec::sums(v[0], v[1], v[2], v[3]));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(four[i], vec::sum(v[i])) << i;
}

TEST(RandomWords, AreThoseOfTheScalarRoutine) {
  const RngKey key = key_from_seed(99).child("dropout");
  for (const std::uint64_t start : {0ull, 1ull, 2ull, 3ull, 61ull, (1ull << 34) - 5})
    for (const std::int64_t count : {0, 1, 3, 17, 64, 65, 301}) {
      std::vector<std::uint32_t> words(static_cast<std::size_t>(count) + 1, 77u);
      random_words(key, start, count, words.data());
      for (std::int64_t i = 0; i < count; ++i)
        ASSERT_EQ(words[static_cast<std::size_t>(i)],
                  random_word(key, start + static_cast<std::uint64_t>(i)));
      ASSERT_EQ(words.back(), 77u);
    }
}

}  // namespace
}  // namespace trireme::cpu_test
