// Files that tell which were opened, and what the process has mapped of code and files: what a
// hostile file must not bring about. libhdf5 opens files by itself, past this door, so descriptors
// and mappings of the process are looked at, too.
#pragma once

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "tests/support/passed_files.h"

namespace trireme::test {

class WatchedFiles final : public testing::PassedFiles {
 public:
  WatchedFiles() : PassedFiles(real_files()) {}
  Outcome raw_open(const std::string& path, OpenMode mode, std::unique_ptr<File>& into) override {
    opened.insert(path);
    return inner().raw_open(path, mode, into);
  }
  std::set<std::string> opened;
};

// Files of code that are loaded into the process.
inline std::set<std::string> loaded_libraries() {
  std::set<std::string> paths;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (const auto at = line.find('/'); at != line.npos && line.find(".so") != line.npos)
      paths.insert(line.substr(at));
  return paths;
}

// What the open descriptors of the process name.
inline std::set<std::string> open_paths() {
  std::set<std::string> paths;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", gone)) {
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    if (!gone && target.string().starts_with("/") && !target.string().starts_with("/proc"))
      paths.insert(target);
  }
  return paths;
}

}  // namespace trireme::test
