// One thread that does jobs in the order in which they come, for another that must not wait for
// them. The line of jobs has an end: who finds it full is told so.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace trireme {

class Worker {
 public:
  explicit Worker(std::size_t most_waiting);
  // After all jobs that were taken.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Any thread. False if as many wait as may. A job must not throw.
  bool post(std::function<void()> job);
  // Any other thread: returns when no job waits or is being done.
  void settle();

 private:
  void run();

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable wake_, settled_;
  std::deque<std::function<void()>> jobs_;
  bool busy_ = false, ends_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace trireme
