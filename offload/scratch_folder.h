// Where a rank's files on disk lie while a run lasts: a folder of its own, readable by its owner
// only (0700), removed with everything inside when the object dies, however the run ended. What a
// killed run left there is removed before a new one begins.
//
// Everything that can be found before training is found here or by SlotFile's preallocation: a
// folder that is missing, no folder, read-only, or on a disk that is too small.
#pragma once

#include <cstdint>
#include <string>

#include "framework/base/files.h"

namespace trireme {

struct ScratchOptions {
  // If `make`, the program's own: made with parents, and removed at the end when nothing else is in
  // it (its parents stay). Else it must exist, and stays.
  std::string folder;
  bool make = false;
  // Of the rank's own folder inside. Whatever has that name is removed: runs that share a folder
  // need names of their own.
  std::string name = "rank-0";
};

class ScratchFolder {
 public:
  // Throws UsageError naming offload.folder: missing, not a folder, cannot be made or written to.
  ScratchFolder(Files& files, const ScratchOptions& options);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  Files& files() const { return files_; }
  const std::string& path() const { return path_; }
  // Before a file of `bytes` is made: throws Error with the two numbers when the disk has not that
  // much free. Others may take it meanwhile, which preallocation then finds.
  void expect_room(std::int64_t bytes) const;

 private:
  Files& files_;
  std::string folder_, path_;
  bool owns_folder_;
};

}  // namespace trireme
