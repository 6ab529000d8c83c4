// One run at a time in a folder: two that save into it by turns would destroy each other's work.
//
// Each run leaves a file whose *name* tells host, process and the moment it was born, so that there
// is no instant at which a lock exists and does not say whose it is. Whoever starts makes its own
// first, then looks for others: a living one (or one of another host, of which nothing is known)
// refuses it, and the file of a dead process is removed. Two that start at once both see the other;
// at least one gives way. One process of a run holds it; the destructor removes it.
#pragma once

#include <cstdint>
#include <string>

#include "framework/base/files.h"

namespace trireme {

struct ProcessIdentity {
  std::string host;
  std::int64_t pid = 0;
  std::int64_t born = 0;  // clock ticks since the machine started: pids are used again
  bool operator==(const ProcessIdentity&) const = default;
};

ProcessIdentity this_process(Files& files);
// On this host, of the caller's own view of processes. One that only waits to be reaped is dead.
bool is_alive(Files& files, const ProcessIdentity& process);

class RunLock {
 public:
  // The folder exists. Throws Error naming the process that holds it, and the file to remove if
  // that one is known to have ended.
  RunLock(Files& files, std::string folder, const ProcessIdentity& self);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // Throws Error if somebody has taken the file away: another run may be in the folder now.
  void expect_held() const;

 private:
  void give_way_to_others(const ProcessIdentity& self) const;

  Files& files_;
  std::string folder_, path_;
};

}  // namespace trireme
