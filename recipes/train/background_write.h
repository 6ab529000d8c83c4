// A thread that writes a process's file of a checkpoint while the ranks train.
//
// One job at a time. Its result, or what it threw, waits for finish(), so an error reaches the rank
// that asks for it and is never lost with the thread. The thread has the system's lowest priority:
// it takes what the ranks leave of the cores, all of them while they wait for it. The members may
// be called from any thread; the job must not call them.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "framework/checkpoint/checkpoint_writer.h"

namespace trireme {

class BackgroundWrite {
 public:
  enum class State : std::uint8_t { kNone, kRunning, kDone, kFailed };
  // It should look at `given_up` often, and throw when it is true.
  using Job = std::function<StoredFile(const std::atomic<bool>& given_up)>;

  BackgroundWrite() = default;
  ~BackgroundWrite() { give_up(); }

  // Throws Error when a job is running or was not finished.
  void start(Job job);
  State state() const { return state_.load(); }
  // Waits for the job: what it returned, or throws what it threw. Then there is none.
  StoredFile finish();
  // Tells the job to stop and waits for it; its end is forgotten. Nothing happens without one.
  void give_up();

 private:
  void run(const Job& job);
  void end();

  std::mutex mutex_;  // guards the thread's handle
  std::thread thread_;
  std::atomic<State> state_{State::kNone};
  std::atomic<bool> given_up_{false};
  StoredFile file_;  // of the job until the thread is joined
  std::exception_ptr error_;
};

}  // namespace trireme
