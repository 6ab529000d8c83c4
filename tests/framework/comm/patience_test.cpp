#include "framework/comm/patience.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Patience, CountsWhatTheClockSaysBetweenLooks) {
  Patience patience(100, 2);
  EXPECT_EQ(patience.waited(100), 0);
  EXPECT_EQ(patience.waited(101), 1);
  EXPECT_EQ(patience.waited(103), 3);
  EXPECT_EQ(patience.waited(103.5), 3.5);
}

TEST(Patience, AStopIsNoWaiting) {
  Patience patience(100, 2);
  EXPECT_EQ(patience.waited(101), 1);
  EXPECT_EQ(patience.waited(3701), 3);
  EXPECT_EQ(patience.waited(3702), 4);
}

TEST(Patience, AClockOfATestMayJump) {
  Patience patience(0, Patience::kAllOfIt);
  EXPECT_EQ(patience.waited(600), 600);
}

}  // namespace
}  // namespace trireme
