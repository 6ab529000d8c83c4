#include "recipes/train/background_write.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "framework/base/error.h"

namespace trireme {

namespace {

// On Linux a thread has a priority of its own. Without it a save only costs the ranks more.
void take_what_is_left() {
  constexpr int kLowest = 19;
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLowest);
}

}  // namespace

void BackgroundWrite::start(Part next) {
  const std::scoped_lock lock(mutex_);
  check(state() == State::kNone, "save: the one before, in the background, is not finished");
  next_ = std::move(next);
  error_ = nullptr;
  leave_ = false;
  state_ = State::kRunning;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::exception& error) {
    state_ = State::kNone;
    fail("save: no thread for writing in the background: ", error.what());
  }
}

void BackgroundWrite::run() {
  take_what_is_left();
  try {
    while (next_())
      if (leave_) return;
    state_ = State::kDone;
  } catch (...) {
    error_ = std::current_exception();
    state_ = State::kFailed;
  }
}

void BackgroundWrite::end() {
  leave_ = true;
  if (thread_.joinable()) thread_.join();
}

void BackgroundWrite::finish() {
  const std::scoped_lock lock(mutex_);
  end();
  const State reached = state_.exchange(State::kNone);
  check(reached != State::kNone, "save: nothing is written in the background");
  if (reached == State::kFailed) std::rethrow_exception(std::exchange(error_, nullptr));
  while (reached == State::kRunning && next_()) continue;
}

void BackgroundWrite::give_up() {
  const std::scoped_lock lock(mutex_);
  end();
  state_ = State::kNone;
}

}  // namespace trireme
