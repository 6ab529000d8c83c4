// What every transport shares: checks of operands, sequence numbers, traffic counts and the call
// log. A transport implements `start`. Internal to framework/comm.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/comm/call.h"
#include "framework/comm/communicator.h"

namespace trireme {

// State of one rank, shared by all its groups. Used by the rank's thread, but for the log.
struct RankState {
  Backend* backend = nullptr;
  Traffic traffic;
  CallLog log;
  CommObserver observer;
  std::string failure;  // of an earlier wait: every later call throws it again
};

// A call and its tensors. all_reduce, broadcast: both are x. Others have what they read as source
// and what they write as target.
struct Operation {
  Call call;
  Tensor source, target;
};

class RankCommunicator : public Communicator {
 public:
  int rank() const final { return rank_; }
  int size() const final { return static_cast<int>(world_ranks_.size()); }
  void attach(Backend& backend) final { state_.backend = &backend; }

  Pending all_reduce(const Tensor& x, ReduceOp op) final;
  Pending quick_all_reduce(const Tensor& x) final;
  Pending all_gather(const Tensor& piece, const Tensor& whole) final;
  Pending reduce_scatter(const Tensor& whole, const Tensor& piece) final;
  Pending broadcast(const Tensor& x, int root) final;
  Pending send(const Tensor& x, int to) final;
  Pending recv(const Tensor& x, int from) final;
  void barrier() final;

  void set_place(std::string place) final { state_.log.set_place(std::move(place)); }
  void set_observer(CommObserver observer) final { state_.observer = std::move(observer); }
  const Traffic& traffic() const final { return state_.traffic; }
  void reset_traffic() final { state_.traffic.clear(); }

 protected:
  // `world_ranks`: of the members, by rank in this group. `state` outlives the communicator.
  RankCommunicator(std::string axis, int rank, std::vector<int> world_ranks, RankState& state);

  // Begins the operation; operands have been checked. For a message `other` is the peer's rank in
  // this group, for a broadcast the root's.
  virtual Pending start(Operation operation, int other) = 0;

  const std::vector<int>& world_ranks() const { return world_ranks_; }
  int world_rank() const { return world_ranks_[static_cast<std::size_t>(rank_)]; }
  RankState& state() const { return state_; }
  // Numbers and logs a collective call.
  Call collective(CallKind kind, DType dtype, std::int64_t elements, int root = -1);

 private:
  Call message(CallKind kind, const Tensor& x, int other);
  void check_operand(const Call& call, const Tensor& x) const;
  void check_member(const char* operation, int rank) const;
  Tensor check_piece(const Call& call, const Tensor& whole, const Tensor& piece) const;
  // Counts and starts an operation that sends so many bytes.
  Pending begin(Operation operation, int other, std::int64_t bytes);
  Pending observe(CommSpan span, Operation operation, int other);
  std::int64_t piece_elements(std::int64_t n, int index) const;

  int rank_;
  std::vector<int> world_ranks_;
  RankState& state_;
  std::int64_t collectives_ = 0;
  std::vector<std::int64_t> sent_, received_;  // messages so far, by peer
};

}  // namespace trireme
