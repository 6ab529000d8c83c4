// The other rank processes of this machine, watched by handles of their processes (pidfd, Linux
// 5.3): a rank that is killed says nothing, and what waits for it would wait until the deadline.
// Ranks of other machines, or of other process namespaces, are not watched. Internal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct LocalProcess {
  std::int64_t rank = 0, process = 0;
  std::uint64_t space = 0;  // its namespace of process numbers
};

// This process's. `rank`: in the world.
LocalProcess local_process(int rank);

class LocalPeers {
 public:
  // All of the machine, this one too.
  explicit LocalPeers(const std::vector<LocalProcess>& all, int rank);
  ~LocalPeers();
  LocalPeers(const LocalPeers&) = delete;
  LocalPeers& operator=(const LocalPeers&) = delete;

  // Empty, or the sentence that one has ended. Never blocks.
  std::string lost() const;

 private:
  struct Peer {
    std::int64_t rank, process;
    int handle;
  };
  std::vector<Peer> peers_;
};

}  // namespace trireme
