#include "recipes/report/printable.h"

#include <gtest/gtest.h>

namespace trireme::testing {
namespace {

const std::string kBad = "\xEF\xBF\xBD";

TEST(Printable, TextStays) {
  for (const std::string text : {"", "In the beginning\n\tGod", "Gr\xC3\xBC\xC3\x9F",
                                 "\xE2\x82\xAC", "\xF0\x9F\x9A\xA3", "\xC2\xA0"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, BytesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(printable("a\xB5"
                      "b"),
            "a" + kBad + "b");
  EXPECT_EQ(printable("\xC3"), kBad);                                   // cut off
  EXPECT_EQ(printable("\xC3z"), kBad + "z");                            // no continuation
  EXPECT_EQ(printable("\xC0\xAF"), kBad + kBad);                        // overlong
  EXPECT_EQ(printable("\xE0\x80\xAF"), kBad + kBad + kBad);             // overlong
  EXPECT_EQ(printable("\xED\xA0\x80"), kBad + kBad + kBad);             // a surrogate
  EXPECT_EQ(printable("\xF4\x90\x80\x80"), kBad + kBad + kBad + kBad);  // above U+10FFFF
  EXPECT_EQ(printable("\xFF"), kBad);
}

TEST(Printable, CommandsToATerminalAreReplaced) {
  EXPECT_EQ(printable("\x1B[2J"), kBad + "[2J");
  EXPECT_EQ(printable("\r\a\x7F"), kBad + kBad + kBad);
  EXPECT_EQ(printable("\xC2\x9B"), kBad);  // CSI in one character
  EXPECT_EQ(printable(std::string_view("\0", 1)), kBad);
}

}  // namespace
}  // namespace trireme::testing
