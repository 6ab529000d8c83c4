// Files that fail on purpose: a decorator that counts every call of the seam and makes the k-th go
// wrong. Tests loop k = 1, 2, ... until a run ends with fired() == 0, so no call is left untried.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include "framework/base/files.h"

namespace trireme::testing {

enum class Fault : std::uint8_t {
  kIoError,      // EIO
  kDiskFull,     // ENOSPC
  kInterrupted,  // EINTR
  kOneByte,      // reads and writes move 1 byte
  kHalf,         // reads and writes move half
  kCrash,        // throws SimulatedCrash, and so does every later call; nothing is cleaned up
  kPowerOff,     // the same, told by EIO: for ranks that must come to an end together
};

struct FaultPlan {
  Fault fault = Fault::kIoError;
  std::int64_t at = 0;  // the call that fails, from 1; 0: none
  bool sticky = false;  // that one and all later ones
};

// Not derived from std::exception: code that swallows errors must not swallow this.
struct SimulatedCrash {};

class FaultyFiles final : public Files {
 public:
  explicit FaultyFiles(FaultPlan plan = {}) : plan_(plan), inner_(real_files()) {}

  std::int64_t calls() const { return calls_; }
  std::int64_t fired() const { return fired_; }

  // What the power cut takes after a crash: every file written without a later sync shrinks to the
  // size it had when last synced (0 for a new file), under the name it has now.
  void lose_unsynced();

  Outcome raw_open(const std::string& path, OpenMode mode, std::unique_ptr<File>& into) override;
  Outcome raw_rename(const std::string& from, const std::string& to) override;
  Outcome raw_remove(const std::string& path) override;
  Outcome raw_make_directory(const std::string& path) override;
  Outcome raw_make_private_directory(const std::string& path) override;
  Outcome raw_list(const std::string& path, std::vector<std::string>& into) override;
  Outcome raw_status(const std::string& path, bool follow_link, FileStatus& into) override;
  Outcome raw_sync_directory(const std::string& path) override;
  Outcome raw_free_space(const std::string& path) override;
  std::uint64_t raw_random() override { return inner_->raw_random(); }

  // For the files: counts one call. Returns an errno, or 0 with `bytes` cut down for short counts.
  int trip(std::int64_t* bytes = nullptr);
  void opened(const std::string& path, std::int64_t size);
  void wrote(const std::string& path);
  void synced(const std::string& path, std::int64_t size);

 private:
  FaultPlan plan_;
  std::unique_ptr<Files> inner_;
  std::mutex mutex_;
  std::int64_t calls_ = 0;
  std::int64_t fired_ = 0;
  struct Durable {
    std::int64_t bytes = 0;  // that survive a power cut
    bool dirty = false;      // written since
  };
  std::map<std::string, Durable> durable_;  // by path; a rename takes the entry along
};

// A new empty folder, in memory if it can be; removed with everything inside.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// The sentence of the Error that `call` throws; "" if it throws none.
template <typename Call>
std::string sentence_of(const Call& call) {
  try {
    call();
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

}  // namespace trireme::testing
