// A thread that works through a job part by part while the ranks train: the writing of a process's
// file of a checkpoint.
//
// One job at a time. What a part throws waits for finish(), so an error reaches the rank that asks
// for it and is never lost with the thread. The thread has the system's lowest priority: it takes
// what the ranks leave of the cores. So that nobody ever waits for what is left, finish() does the
// remaining parts itself. The members may be called from any thread, but not by a part.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace trireme {

class BackgroundWrite {
 public:
  enum class State : std::uint8_t { kNone, kRunning, kDone, kFailed };
  // Does the next part, a short one; false when that was the last. Called by one thread at a time.
  using Part = std::function<bool()>;

  BackgroundWrite() = default;
  ~BackgroundWrite() { give_up(); }

  // Throws Error when a job was not finished.
  void start(Part next);
  State state() const { return state_.load(); }
  // Returns when the last part is done, or throws what one threw. Then there is no job.
  void finish();
  // Ends the job after the part that it is in, and forgets it. Nothing happens without one.
  void give_up();

 private:
  void run();
  void end();

  std::mutex mutex_;  // guards the thread's handle
  std::thread thread_;
  std::atomic<State> state_{State::kNone};
  std::atomic<bool> leave_{false};
  Part next_;  // of the thread until it is joined, as is the error
  std::exception_ptr error_;
};

}  // namespace trireme
