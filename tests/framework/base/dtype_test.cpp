// The 16-bit formats round to nearest even and keep NaN and infinity.
#include "framework/base/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace trireme {
namespace {

float through_bf16(float x) { return static_cast<float>(BFloat16(x)); }
float through_f16(float x) { return static_cast<float>(Float16(x)); }

TEST(BFloat16, EveryPatternSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const auto value = std::bit_cast<float>(bits << 16);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(through_bf16(value)));
    else
      EXPECT_EQ(std::bit_cast<std::uint32_t>(through_bf16(value)), bits << 16);
  }
}

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(through_bf16(1.0f + 0x1p-8f), 1.0f);               // a tie, down to even
  EXPECT_EQ(through_bf16(1.0f + 0x3p-8f), 1.0f + 0x1p-6f);     // a tie, up to even
  EXPECT_EQ(through_bf16(1.0f + 0x1.01p-8f), 1.0f + 0x1p-7f);  // above a tie
}

TEST(BFloat16, OverflowsToInfinityAndKeepsNan) {
  EXPECT_EQ(through_bf16(std::numeric_limits<float>::max()), HUGE_VALF);
  EXPECT_EQ(through_bf16(-HUGE_VALF), -HUGE_VALF);
  // The payload lies in the half that is cut off: the NaN must not become an infinity.
  EXPECT_TRUE(std::isnan(through_bf16(std::bit_cast<float>(0x7f800001u))));
}

TEST(Float16, RoundsToNearestEvenAndOverflows) {
  EXPECT_EQ(through_f16(1.0f + 0x1p-11f), 1.0f);
  EXPECT_EQ(through_f16(1.0f + 0x3p-11f), 1.0f + 0x1p-9f);
  EXPECT_EQ(through_f16(65504.0f), 65504.0f);
  EXPECT_EQ(through_f16(65520.0f), HUGE_VALF);
  EXPECT_EQ(through_f16(0x1p-24f), 0x1p-24f);  // the smallest subnormal
  EXPECT_TRUE(std::isnan(through_f16(NAN)));
}

TEST(DType, NamesSizesAndSums) {
  EXPECT_EQ(name_of(DType::kBF16), "bf16");
  EXPECT_EQ(size_of(DType::kF64), 8);
  EXPECT_EQ(size_of(DType::kF16), 2);
  EXPECT_EQ(accumulation_type(DType::kF64), DType::kF64);
  EXPECT_EQ(accumulation_type(DType::kBF16), DType::kF32);
  EXPECT_FALSE(is_floating(DType::kI32));
}

}  // namespace
}  // namespace trireme
