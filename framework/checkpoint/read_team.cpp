#include "framework/checkpoint/read_team.h"

#include <algorithm>
#include <utility>

namespace trireme {

struct ReadTeam::Work::Jobs {
  Job job;
  std::int64_t count = 0, next = 0, running = 0;
  std::int64_t failed = 0;  // number of the job that threw `failure`
  std::exception_ptr failure;
};

ReadTeam::Work& ReadTeam::Work::operator=(Work&& other) noexcept {
  if (this == &other) return *this;
  if (jobs_) team_->finish(jobs_, false);
  team_ = other.team_;
  jobs_ = std::move(other.jobs_);
  return *this;
}

ReadTeam::Work::~Work() {
  if (jobs_) team_->finish(jobs_, false);
}

void ReadTeam::Work::wait() {
  if (!jobs_) return;
  const std::shared_ptr<Jobs> jobs = std::exchange(jobs_, nullptr);
  team_->finish(jobs, true);
  if (jobs->failure) std::rethrow_exception(jobs->failure);
}

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
  started_some_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

ReadTeam::Work ReadTeam::start(std::int64_t jobs, Job job) {
  auto started = std::make_shared<Jobs>();
  started->job = std::move(job);
  started->count = jobs;
  if (jobs > 0 && !threads_.empty()) {
    const std::lock_guard lock(mutex_);
    started_.push_back(started);
    jobs == 1 ? started_some_.notify_one() : started_some_.notify_all();
  }
  return Work(*this, std::move(started));
}

void ReadTeam::help() {
  std::unique_lock lock(mutex_);
  for (;;) {
    started_some_.wait(lock, [this] { return stopping_ || !started_.empty(); });
    if (stopping_) return;
    const std::shared_ptr<Jobs> first = started_.front();
    take(first, lock);
  }
}

// A job before the failed one may still be running: the least number decides.
void ReadTeam::take(const std::shared_ptr<Jobs>& jobs, std::unique_lock<std::mutex>& lock) {
  const std::int64_t mine = jobs->next++;
  if (jobs->next >= jobs->count) std::erase(started_, jobs);
  ++jobs->running;
  lock.unlock();
  std::exception_ptr failure;
  try {
    jobs->job(mine);
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  --jobs->running;
  if (failure) {
    if (!jobs->failure || mine < jobs->failed) {
      jobs->failure = failure;
      jobs->failed = mine;
    }
    jobs->next = jobs->count;
    std::erase(started_, jobs);
  }
  if (jobs->running == 0 && jobs->next >= jobs->count) ended_.notify_all();
}

void ReadTeam::finish(const std::shared_ptr<Jobs>& jobs, bool take_part) {
  std::unique_lock lock(mutex_);
  while (take_part && jobs->next < jobs->count) take(jobs, lock);
  jobs->next = jobs->count;
  std::erase(started_, jobs);
  ended_.wait(lock, [&] { return jobs->running == 0; });
}

}  // namespace trireme
