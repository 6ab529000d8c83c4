#include "recipes/api/worker.h"

#include <utility>

namespace trireme {

Worker::Worker(std::size_t most_waiting) : most_(most_waiting), thread_([this] { run(); }) {}

Worker::~Worker() {
  {
    std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

bool Worker::post(std::function<void()> job) {
  std::scoped_lock lock(mutex_);
  if (jobs_.size() >= most_) return false;
  jobs_.push_back(std::move(job));
  wake_.notify_one();
  return true;
}

void Worker::settle() {
  std::unique_lock lock(mutex_);
  settled_.wait(lock, [&] { return jobs_.empty() && !busy_; });
}

void Worker::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return !jobs_.empty() || ends_; });
    if (jobs_.empty()) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    lock.unlock();
    job();
    job = nullptr;  // what it held is gone before anybody hears that it is done
    lock.lock();
    busy_ = false;
    if (jobs_.empty()) settled_.notify_all();
  }
}

}  // namespace trireme
