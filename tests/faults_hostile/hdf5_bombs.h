// HDF5 files that no program of ours writes, each with one trap in it.
#pragma once

#include <string>
#include <vector>

namespace trireme::test {

struct Bomb {
  std::string name;
  std::string path;         // of the file
  std::int64_t offset = 0;  // of what it claims to be ten tokens of one byte; 0: it has none
};

// Makes them in `folder`, which also gets the file "secret" that some point at, and a folder
// "plugins" with what claims to be a filter's library.
std::vector<Bomb> make_bombs(const std::string& folder);

}  // namespace trireme::test
