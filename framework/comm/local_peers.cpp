#include "framework/comm/local_peers.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "framework/base/error.h"

namespace trireme {

LocalProcess local_process(int rank) {
  struct stat space {};
  const bool known = stat("/proc/self/ns/pid", &space) == 0;
  return {.rank = rank, .process = getpid(), .space = known ? space.st_ino : 0};
}

LocalPeers::LocalPeers(const std::vector<LocalProcess>& all, int rank) {
  const std::uint64_t here = local_process(rank).space;
  if (here == 0) return;
  for (const LocalProcess& p : all) {
    if (p.rank == rank || p.space != here) continue;
    const long handle = syscall(SYS_pidfd_open, p.process, 0);
    if (handle >= 0) peers_.push_back({p.rank, p.process, static_cast<int>(handle)});
  }
}

LocalPeers::~LocalPeers() {
  for (const Peer& peer : peers_) close(peer.handle);
}

std::string LocalPeers::lost() const {
  std::vector<pollfd> handles;
  for (const Peer& peer : peers_) handles.push_back({peer.handle, POLLIN, 0});
  if (handles.empty() || poll(handles.data(), handles.size(), 0) <= 0) return {};
  for (std::size_t i = 0; i < handles.size(); ++i)
    if ((handles[i].revents & POLLIN) != 0)
      return join("rank ", peers_[i].rank, " is gone: its process ", peers_[i].process,
                  " has ended without a word");
  return {};
}

}  // namespace trireme
