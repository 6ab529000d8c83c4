#include "recipes/report/numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

namespace trireme {
namespace {

TEST(Numbers, Short) {
  EXPECT_EQ(short_number(18400), "18.4k");
  EXPECT_EQ(short_number(412), "412");
  EXPECT_EQ(short_number(0.84), "0.84");
  EXPECT_EQ(short_number(999.6), "1.00k");
  EXPECT_EQ(short_number(999.4), "999");
  EXPECT_EQ(short_number(1234567), "1.23M");
  EXPECT_EQ(short_number(9.996), "10.0");
  EXPECT_EQ(short_number(0), "0.00");
  EXPECT_EQ(short_number(std::nan("")), "nan");
}

TEST(Numbers, Significant) {
  EXPECT_EQ(significant(2.9e-4, 2), "2.9e-4");
  EXPECT_EQ(significant(0.001, 2), "0.001");
  EXPECT_EQ(significant(0, 2), "0");
  EXPECT_EQ(significant(1.24e-10, 2), "1.2e-10");
  EXPECT_EQ(significant(123456, 2), "1.2e5");
  EXPECT_EQ(significant(0.5, 2), "0.5");
}

TEST(Numbers, Durations) {
  EXPECT_EQ(duration_text(0.84), "0.8s");
  EXPECT_EQ(duration_text(9.96), "10s");
  EXPECT_EQ(duration_text(59.4), "59s");
  EXPECT_EQ(duration_text(59.6), "1m00s");
  EXPECT_EQ(duration_text(192), "3m12s");
  EXPECT_EQ(duration_text(3720), "1h02m");
  EXPECT_EQ(duration_text(2 * 86400 + 3 * 3600), "2d03h");
  EXPECT_EQ(duration_text(std::numeric_limits<double>::infinity()), "?");
}

TEST(Numbers, Bytes) {
  EXPECT_EQ(gib_text(1299227607), "1.21");
  EXPECT_EQ(bytes_text(24), "24 B");
  EXPECT_EQ(bytes_text(1536), "1.50 KiB");
  EXPECT_EQ(bytes_text(64 << 20), "64.0 MiB");
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(grouped(-123), "-123");
  EXPECT_EQ(grouped(-1234), "-1,234");
  EXPECT_EQ(flops_text(412e9), "412 GFLOP/s");
  EXPECT_EQ(flops_text(1.02e12), "1.02 TFLOP/s");
  EXPECT_EQ(percent_text(0.414), "41%");
}

TEST(Numbers, JsonKeepsEveryBit) {
  for (double value : {0.1, 1.0 / 3, 3.4123456789012345, 1e-300, 5e-324, -2.5})
    EXPECT_EQ(std::strtod(json_number(value).c_str(), nullptr), value);
  EXPECT_EQ(json_number(std::nan("")), "null");
  EXPECT_EQ(json_string("a\"b\\\n\xc3\xa9"), "\"a\\\"b\\\\\\u000a\xc3\xa9\"");
}

}  // namespace
}  // namespace trireme
