// Threads that help whoever reads a checkpoint: disks want several requests at a time, and hashes
// and conversions several cores. Work is cut into numbered jobs; the caller takes part.
//
// Used by one caller at a time: another one works alone meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "framework/base/condition.h"

namespace trireme {

class ReadTeam {
 public:
  explicit ReadTeam(int helpers);  // 0: callers work alone
  ~ReadTeam();
  ReadTeam(const ReadTeam&) = delete;
  ReadTeam& operator=(const ReadTeam&) = delete;

  // Calls job(i) for i in [0, jobs), each once, on several threads; returns when all are done.
  // Throws what the job of the least number threw; those behind it may then be left out.
  using Job = std::function<void(std::int64_t i)>;
  void run(std::int64_t jobs, const Job& job);

 private:
  void help();
  void take_jobs(std::unique_lock<std::mutex>& lock);
  void stop();

  std::mutex mutex_;
  Condition changed_;
  bool busy_ = false, stopping_ = false;
  const Job* job_ = nullptr;
  std::int64_t next_ = 0, jobs_ = 0, running_ = 0;
  std::int64_t failed_ = 0;  // number of the job that threw failure_
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace trireme
