// Where a rank's files on disk lie while a run lasts: a folder of its own, readable by its owner
// only (0700), removed with everything inside when the object dies, however the run ended. What a
// killed run left there is removed before a new one begins.
//
// Everything that can be found before training is found here or by SlotFile's preallocation: a
// folder that is missing, no folder, read-only, or on a disk that is too small.
#pragma once

#include <string>

#include "framework/base/files.h"

namespace trireme {

struct ScratchOptions {
  std::string folder;  // made, with parents, if `make`; else it must exist
  bool make = false;
  std::string name = "rank-0";  // of the rank's own folder inside
};

class ScratchFolder {
 public:
  // Throws UsageError naming offload.folder: missing, not a folder, or not writable.
  ScratchFolder(Files& files, const ScratchOptions& options);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  Files& files() const { return files_; }
  const std::string& path() const { return path_; }
  // Throws Error with the two numbers when the disk has not `bytes` free for all ranks together.
  void expect_room(std::int64_t bytes) const;

 private:
  Files& files_;
  std::string path_;
};

}  // namespace trireme
