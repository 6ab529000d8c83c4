// Files in memory, on a disk that can lose its power (simulated_disk.h says what it then keeps and
// what is not modelled), for tests that try every call of a save:
//
//   SimulatedFiles files;                      // set up, then everything durable
//   ...
//   files.sync_all();
//   files.trouble({.plan = {Fault::kCrash, k}});
//   ... the save throws SimulatedCrash at its k-th call, as does every later call ...
//   for (const Persistence& kept : every_persistence()) {
//     const auto after = files.restart(kept, seed);   // may be called again and again
//     ... read *after ...
//   }
//
// One call of the seam is one call counted, one lock held, one line of trace(). Closing by a
// destructor is no call. The root folder "/" exists and is also the working directory. Faults:
// - FaultPlan: EIO, ENOSPC, EINTR, 1 byte, half, or the crash, at the k-th call, once or sticky. An
//   error of File::sync drops the unsynced writes: a later sync succeeds, and they are gone.
// - a disk of so many bytes (a write that meets its end is short, the next one is ENOSPC), so many
//   open files (EMFILE), files that only give EIO, reads and writes that stutter.
// - planted bugs: syncs that claim success and do nothing.
// Mappings are copies of the content. direct() is true for scratch files, which survive a power cut
// by the rules of the others. Thread-safe.
#pragma once

#include <functional>
#include <mutex>
#include <random>

#include "tests/support/faulty_files.h"
#include "tests/support/simulated_disk.h"

namespace trireme::testing {

struct Troubles {
  FaultPlan plan = {};
  std::int64_t capacity = std::int64_t{1} << 40;  // bytes
  std::int64_t open_files = 1024;
  // Each read, write and append by turns: EINTR, 1 byte, EINTR, half.
  bool stutter = false;
  // By path as the caller gave it. Opening, reading, writing and syncing give EIO.
  std::function<bool(const std::string& path)> broken = {};
  // A file's or a folder's sync says that it is done and does nothing.
  std::function<bool(const std::string& path)> ignores_sync = {};
};

class SimulatedFiles final : public Files {
 public:
  explicit SimulatedFiles(Troubles troubles = {});

  // From now on; counts and trace begin anew.
  void trouble(Troubles troubles);
  std::int64_t calls() const;
  std::int64_t fired() const;  // times the plan struck
  bool crashed() const;
  std::vector<std::string> trace() const;  // "rename a -> b", one per call

  void sync_all();
  std::int64_t used() const;      // bytes on the disk
  std::int64_t open_now() const;  // files
  bool owner_only(const std::string& path) const;
  // After a power cut now, crashed or not: everything durable, no troubles.
  std::unique_ptr<SimulatedFiles> restart(const Persistence& kept, std::uint64_t seed) const;

  Outcome raw_open(const std::string& path, OpenMode mode, std::unique_ptr<File>& into) override;
  Outcome raw_rename(const std::string& from, const std::string& to) override;
  Outcome raw_remove(const std::string& path) override;
  Outcome raw_make_directory(const std::string& path) override;
  Outcome raw_make_private_directory(const std::string& path) override;
  Outcome raw_list(const std::string& path, std::vector<std::string>& into) override;
  Outcome raw_status(const std::string& path, bool follow_link, FileStatus& into) override;
  Outcome raw_sync_directory(const std::string& path) override;
  Outcome raw_free_space(const std::string& path) override;
  std::uint64_t raw_random() override;

 private:
  friend class SimulatedFile;

  SimulatedFiles(SimulatedDisk disk, std::uint64_t seed);
  // All below with the lock held. Counts one call; returns an errno, or 0 with `bytes` cut down.
  int enter(const std::string& what, const std::string& path, std::int64_t* bytes = nullptr);
  int stutter(std::int64_t* bytes);
  bool matches(const std::function<bool(const std::string&)>& which, const std::string& path) const;
  Outcome make_directory(const std::string& path, bool owner_only);
  // Writes what fits on the disk.
  Outcome put(const DiskNodePtr& file, const void* from, std::int64_t bytes, std::int64_t offset);
  Outcome reserve(const DiskNodePtr& file, std::int64_t bytes);

  mutable std::mutex mutex_;
  SimulatedDisk disk_;
  Troubles troubles_;
  std::vector<std::string> trace_;
  std::int64_t fired_ = 0;
  std::int64_t open_now_ = 0;
  std::int64_t clock_ = 0;
  std::int64_t transfers_ = 0;
  bool crashed_ = false;
  std::mt19937_64 random_;
};

}  // namespace trireme::testing
