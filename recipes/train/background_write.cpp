#include "recipes/train/background_write.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "framework/base/error.h"

namespace trireme {

namespace {

// On Linux a thread has a priority of its own. Without it the save only costs the ranks more.
void take_what_is_left() {
  constexpr int kLowest = 19;
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLowest);
}

}  // namespace

void BackgroundWrite::start(Job job) {
  const std::scoped_lock lock(mutex_);
  check(state() == State::kNone, "save: the one before, in the background, is not finished");
  given_up_ = false;
  error_ = nullptr;
  state_ = State::kRunning;
  try {
    thread_ = std::thread([this, work = std::move(job)] { run(work); });
  } catch (const std::exception& error) {
    state_ = State::kNone;
    fail("save: no thread for writing in the background: ", error.what());
  }
}

void BackgroundWrite::run(const Job& job) {
  take_what_is_left();
  State end = State::kDone;
  try {
    file_ = job(given_up_);
  } catch (...) {
    error_ = std::current_exception();
    end = State::kFailed;
  }
  state_ = end;
}

void BackgroundWrite::end() {
  if (thread_.joinable()) thread_.join();
  state_ = State::kNone;
}

StoredFile BackgroundWrite::finish() {
  const std::scoped_lock lock(mutex_);
  check(state() != State::kNone, "save: nothing is written in the background");
  end();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return std::move(file_);
}

void BackgroundWrite::give_up() {
  const std::scoped_lock lock(mutex_);
  given_up_ = true;
  end();
}

}  // namespace trireme
