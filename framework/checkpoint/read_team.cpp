#include "framework/checkpoint/read_team.h"

#include <exception>
#include <utility>

namespace trireme {

ReadTeam::ReadTeam(int helpers) {
  try {
    for (int i = 0; i < helpers; ++i) threads_.emplace_back([this] { help(); });
  } catch (const std::exception&) {
    // Fewer helpers, or none, are only slower.
  }
}

ReadTeam::~ReadTeam() { stop(); }

void ReadTeam::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ReadTeam::run(std::int64_t jobs, const Job& job) {
  std::unique_lock lock(mutex_);
  if (busy_ || jobs < 2 || threads_.empty()) {
    lock.unlock();
    for (std::int64_t i = 0; i < jobs; ++i) job(i);
    return;
  }
  busy_ = true;
  job_ = &job;
  next_ = 0;
  jobs_ = jobs;
  changed_.notify_all();
  take_jobs(lock);
  changed_.wait(lock, [this] { return running_ == 0; });
  busy_ = false;
  if (const std::exception_ptr failure = std::exchange(failure_, nullptr))
    std::rethrow_exception(failure);
}

void ReadTeam::help() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || next_ < jobs_; });
    if (stopping_) return;
    take_jobs(lock);
  }
}

// A job before the failed one may still be running: the least number decides.
void ReadTeam::take_jobs(std::unique_lock<std::mutex>& lock) {
  while (next_ < jobs_) {
    const std::int64_t mine = next_++;
    const Job& job = *job_;
    ++running_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      job(mine);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    --running_;
    if (failure && (!failure_ || mine < failed_)) {
      failure_ = failure;
      failed_ = mine;
    }
    if (failure) next_ = jobs_;
  }
  if (running_ == 0) changed_.notify_all();
}

}  // namespace trireme
