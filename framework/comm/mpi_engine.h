// Operations of one rank over MPI, and the loop that advances them. Internal.
//
// Everything is non-blocking point-to-point messages, matched by (group, sequence number, channel),
// so operations in flight may advance in any order on any rank; MPI's own non-blocking collectives
// would have to be started in one order. An operation begins with an exchange of headers (the
// calls): ranks that disagree find out before any data moves, and a rank that waits knows exactly
// who has not arrived. Then pieces go all to all in bounded chunks, are summed in rank order, and
// the sums are gathered: the bits of the thread transport. quick_all_reduce sends its data beside
// the headers, whole, and sums it when all has come.
//
// Every wait advances all operations in flight of the rank, with back-off and a deadline, and ends
// when another rank's process on this machine has ended. Only the rank's thread calls MPI
// (MPI_THREAD_FUNNELED).
#pragma once

#include <mpi.h>

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/comm/local_peers.h"
#include "framework/comm/mpi_calls.h"
#include "framework/comm/rank_communicator.h"

namespace trireme {

struct MpiGroup {
  MPI_Comm comm = MPI_COMM_NULL;
  std::string axis;
};

// One end of a header exchange or of data: the rank in the group's comm by seat.
struct MpiOperation {
  std::shared_ptr<MpiGroup> group;
  Operation operation;
  Backend* backend = nullptr;  // null when there are no operands
  int seat = 0;
  std::vector<int> ranks;            // in the group, by seat: all of it, or sender and receiver
  std::vector<int> members;          // the same as world ranks
  std::vector<Call> calls;           // headers by seat
  std::vector<MpiRequests> headers;  // arriving, by seat
  MpiRequests sent_headers;
  int uncaught = 0;  // exceptions unwinding when it began

  bool agreed = false, done = false;
  std::string error;
  MpiRequests requests;               // what the next stage waits for
  MpiRequests background;             // what a later stage waits for
  std::vector<Tensor> arriving = {};  // of quick_all_reduce, by seat
  std::deque<std::function<void()>> stages;
  std::shared_ptr<MpiOperation> kept = {};  // itself, for good, once it was given up under way

  const Call& call() const { return operation.call; }
  int tag(int channel) const;
  std::string text() const { return text_of(call(), group->axis); }
};

class MpiEngine {
 public:
  // `control`: a communicator of its own, over the world. `peers` outlive it.
  MpiEngine(MPI_Comm control, const CommunicatorOptions& options, const LocalPeers& peers);
  ~MpiEngine();

  RankState& state() { return state_; }
  // False after a failure of this rank or a peer.
  bool healthy() const { return state_.failure.empty() && peer_failure_.empty(); }

  void start(const std::shared_ptr<MpiOperation>& operation);
  void wait(const std::shared_ptr<MpiOperation>& operation);
  // Of the operations in flight that have operands; null when there is none.
  Backend* backend_in_flight() const;
  void abort(const std::string& reason) noexcept;

 private:
  // What a failing rank tells the others: best effort.
  struct Notice {
    int rank = 0;
    std::array<char, 1020> text{};
  };

  double now() const;
  void post_headers(MpiOperation& operation);
  bool advance(MpiOperation& operation);
  bool exchange_headers(MpiOperation& operation);
  bool advance_all();
  void poll_notices();
  std::string obstacle(const MpiOperation& operation, double waited);
  std::string timeout_text(const MpiOperation& operation) const;
  void withdraw(const std::shared_ptr<MpiOperation>& operation) noexcept;
  void wait_until_done(MpiOperation& operation);

  const CommunicatorOptions options_;
  const LocalPeers& peers_;
  MPI_Comm control_;
  int rank_ = 0, size_ = 1;
  RankState state_;
  std::vector<std::shared_ptr<MpiOperation>> in_flight_;
  Notice incoming_, outgoing_;
  MpiRequests notice_, abort_requests_;
  std::string peer_failure_;
  bool abort_sent_ = false;
};

// Fills in the stages of an operation whose headers agree.
void plan_stages(MpiOperation& operation);
// Posts the data of a quick_all_reduce beside its headers. Ranks that disagree leave it unmatched.
void post_quick(MpiOperation& operation);

}  // namespace trireme
