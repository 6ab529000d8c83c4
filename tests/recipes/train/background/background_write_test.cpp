#include "recipes/train/background_write.h"

#include <gtest/gtest.h>

#include <map>
#include <semaphore>

#include "framework/base/error.h"
#include "tests/support/faulty_files.h"

namespace trireme::testing {
namespace {

using State = BackgroundWrite::State;

TEST(BackgroundWrite, DoesAllPartsInTheirOrder) {
  BackgroundWrite background;
  EXPECT_EQ(background.state(), State::kNone);
  std::vector<int> done;
  background.start([&] {
    done.push_back(static_cast<int>(done.size()));
    return done.size() < 100;
  });
  EXPECT_NE(sentence_of([&] { background.start({}); }).find("is not finished"), std::string::npos);
  background.finish();
  ASSERT_EQ(done.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(background.state(), State::kNone);
  EXPECT_NE(sentence_of([&] { background.finish(); }).find("nothing is written"),
            std::string::npos);
}

// The thread is in its first part when somebody begins to wait: it leaves, the other one goes on.
TEST(BackgroundWrite, WhoWaitsDoesWhatIsLeft) {
  BackgroundWrite background;
  std::binary_semaphore begun(0), go(0);
  std::map<std::thread::id, int> parts;
  int done = 0;
  background.start([&] {
    if (done == 0) {
      begun.release();
      go.acquire();
    }
    ++parts[std::this_thread::get_id()];
    return ++done < 1000;
  });
  begun.acquire();
  EXPECT_EQ(background.state(), State::kRunning);
  std::thread opener([&] { go.release(); });
  background.finish();
  opener.join();
  EXPECT_EQ(done, 1000);
  EXPECT_LE(parts.size(), 2u);
}

// Errors wait for who asks, and the next job begins without them; one of no std::exception, too.
TEST(BackgroundWrite, AnErrorReachesTheOneWhoAsks) {
  BackgroundWrite background;
  for (int i = 0; i < 3; ++i) {
    background.start([]() -> bool { fail("the disk is gone"); });
    EXPECT_EQ(sentence_of([&] { background.finish(); }), "the disk is gone");
  }
  background.start([]() -> bool { throw SimulatedCrash(); });
  EXPECT_THROW(background.finish(), SimulatedCrash);
  background.start([] { return false; });
  EXPECT_NO_THROW(background.finish());
}

TEST(BackgroundWrite, GivingUpEndsAJobThatHasNoEnd) {
  std::atomic<int> parts{0};
  {
    BackgroundWrite background;
    background.give_up();
    for (int i = 0; i < 2; ++i) {
      background.start([&] { return ++parts > 0; });
      if (i == 0) background.give_up();
      EXPECT_EQ(background.state(), i == 0 ? State::kNone : State::kRunning);
    }
  }
  EXPECT_GE(parts, 2);
}

}  // namespace
}  // namespace trireme::testing
