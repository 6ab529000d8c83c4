#include "framework/base/condition.h"

#include <gtest/gtest.h>

#include <thread>

namespace trireme {
namespace {

TEST(Condition, AWakeUpThatIsLostEndsTheSleepAllTheSame) {
  std::mutex mutex;
  Condition changed;
  bool asleep = false, ready = false;
  std::thread silent([&] {
    for (;;) {
      const std::scoped_lock lock(mutex);
      if (!asleep) continue;
      ready = true;  // and nobody is told
      return;
    }
  });
  std::unique_lock lock(mutex);
  asleep = true;
  changed.wait(lock, [&] { return ready; });
  EXPECT_TRUE(ready);
  lock.unlock();
  silent.join();
}

TEST(Condition, WhatHoldsAlreadyIsNotWaitedFor) {
  std::mutex mutex;
  Condition changed;
  std::unique_lock lock(mutex);
  int looked = 0;
  changed.wait(lock, [&] { return ++looked == 1; });
  EXPECT_EQ(looked, 1);
  EXPECT_TRUE(lock.owns_lock());
}

}  // namespace
}  // namespace trireme
