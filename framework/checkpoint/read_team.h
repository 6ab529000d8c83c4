// Threads that help whoever reads a checkpoint: disks want several requests at a time, and hashes
// and conversions several cores. Work is cut into numbered jobs; who waits for it takes part.
//
// May be used by several threads at once; jobs begin in the order in which their work was started.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "framework/base/condition.h"

namespace trireme {

class ReadTeam {
 public:
  using Job = std::function<void(std::int64_t i)>;

  // Work under way. Dropping it leaves out the jobs that have not begun and waits for the others.
  class Work {
   public:
    Work() = default;  // nothing to do
    Work(Work&&) noexcept = default;
    Work& operator=(Work&& other) noexcept;
    ~Work();
    // Takes part until all jobs are done. Throws what the job of the least number threw; those
    // behind it may then be left out. Later calls do nothing.
    void wait();

   private:
    friend class ReadTeam;
    struct Jobs;
    Work(ReadTeam& team, std::shared_ptr<Jobs> jobs) : team_(&team), jobs_(std::move(jobs)) {}
    ReadTeam* team_ = nullptr;
    std::shared_ptr<Jobs> jobs_;
  };

  explicit ReadTeam(int helpers);  // 0: callers work alone, when they wait
  ~ReadTeam();                     // its Work is gone by then
  ReadTeam(const ReadTeam&) = delete;
  ReadTeam& operator=(const ReadTeam&) = delete;

  // job(i) for i in [0, jobs), each once, on several threads.
  [[nodiscard]] Work start(std::int64_t jobs, Job job);
  void run(std::int64_t jobs, Job job) { start(jobs, std::move(job)).wait(); }

 private:
  using Jobs = Work::Jobs;
  void help();
  // One job of it, without the lock.
  void take(const std::shared_ptr<Jobs>& jobs, std::unique_lock<std::mutex>& lock);
  void finish(const std::shared_ptr<Jobs>& jobs, bool take_part);
  void stop();

  std::mutex mutex_;
  Condition started_some_, ended_;  // there are jobs, or the end; the last job of some work ended
  bool stopping_ = false;
  std::deque<std::shared_ptr<Jobs>> started_;  // with jobs that nobody has taken
  std::vector<std::thread> threads_;
};

}  // namespace trireme
