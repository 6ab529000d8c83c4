// A condition variable for threads that sleep for as long as it takes.
//
// glibc 2.27 to 2.40 can lose a notify_one() when three or more threads wait and one of them is
// slow to wake (sourceware bug 25847): a worker then sleeps beside a full queue for ever. Here a
// sleeper looks again a few times a second, so that such a loss costs a fraction of a second.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace trireme {

class Condition {
 public:
  // Returns when ready() holds; ready() is called with the lock held.
  template <typename Ready>
  void wait(std::unique_lock<std::mutex>& lock, const Ready& ready) {
    while (!ready()) changed_.wait_for(lock, kLook);
  }
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

 private:
  static constexpr std::chrono::milliseconds kLook{200};
  std::condition_variable changed_;
};

}  // namespace trireme
