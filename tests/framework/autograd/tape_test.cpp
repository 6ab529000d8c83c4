// Entries run in reverse; queued work in order, when it is asked for.
#include "framework/autograd/tape.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace trireme {
namespace {

class TapeOrder : public ::testing::Test {
 protected:
  void record(char c) {
    tape_.record([this, c] { log_ += c; });
  }
  void record_with_later(char c, char work) {
    tape_.record([this, c, work] {
      log_ += c;
      tape_.later([this, work] { log_ += work; });
    });
  }
  Tape tape_;
  std::string log_;
};

TEST_F(TapeOrder, RunsInReverseAndIsEmptyThen) {
  for (char c : {'a', 'b', 'c'}) record(c);
  EXPECT_FALSE(tape_.empty());
  tape_.run_backward();
  EXPECT_EQ(log_, "cba");
  EXPECT_TRUE(tape_.empty());
}

TEST_F(TapeOrder, QueuedWorkRunsInOrderAfterTheEntries) {
  record_with_later('a', '1');
  record_with_later('b', '2');
  tape_.run_backward();
  EXPECT_EQ(log_, "ba21");
}

TEST_F(TapeOrder, ADrainInBetweenRunsWhatIsQueuedSoFar) {
  record('a');
  tape_.record([this] { tape_.drain_unless_split(); });
  record_with_later('b', '2');
  tape_.run_backward();
  EXPECT_EQ(log_, "b2a");
}

TEST_F(TapeOrder, TheInputHalfLeavesTheQueue) {
  record_with_later('a', '1');
  tape_.record([this] {
    EXPECT_TRUE(tape_.split());
    tape_.drain_unless_split();
  });
  record_with_later('b', '2');
  tape_.run_backward_input();
  EXPECT_EQ(log_, "ba");
  EXPECT_FALSE(tape_.split());
  EXPECT_FALSE(tape_.empty());
  tape_.drain();
  EXPECT_EQ(log_, "ba21");
  EXPECT_TRUE(tape_.empty());
}

TEST_F(TapeOrder, WorkMayQueueWork) {
  tape_.later([this] {
    log_ += '1';
    tape_.later([this] { log_ += '3'; });
  });
  tape_.later([this] { log_ += '2'; });
  tape_.drain();
  EXPECT_EQ(log_, "123");
}

// What an entry keeps alive dies as soon as it ran.
TEST_F(TapeOrder, EntriesAndWorkDieOneByOne) {
  const auto kept = std::make_shared<int>(0);
  tape_.record([&] { EXPECT_EQ(kept.use_count(), 1); });
  tape_.record([held = kept, &kept] { EXPECT_EQ(kept.use_count(), 2); });
  tape_.run_backward();
  tape_.later([held = kept] {});
  tape_.later([&] { EXPECT_EQ(kept.use_count(), 1); });
  tape_.drain();
}

}  // namespace
}  // namespace trireme
