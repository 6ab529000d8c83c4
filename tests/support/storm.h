// A communicator in bad weather: it passes every call on, but lets other ranks run first, a seeded
// number of times, before each call and each wait, and ends its rank at the k-th call, before that
// call contributed or right after. For thread ranks:
//
//   on_ranks(4, [&](Communicator& world, Backend& backend) {
//     StormCommunicator storm(world, {.seed = 7, .kill_rank = 2, .kill_at = 12});
//     ... everything of this rank through `storm` and what is split from it ...
//   });
//
// Calls are counted per rank over all groups split from one storm; barrier and split count too.
// Only orders change that the operating system may choose anyway: nothing is lost or reordered, no
// clock is read, nobody sleeps. Which order comes about is the scheduler's, so a seed does not
// replay a run; results must not depend on it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "framework/comm/communicator.h"

namespace trireme::test {

struct StormPlan {
  std::uint64_t seed = 0;
  int most_yields = 8;       // before a call or a wait; 0: calm
  int kill_rank = -1;        // of the world; -1: nobody
  std::int64_t kill_at = 0;  // its k-th call, from 1, throws Error
  bool contributes = false;  // killed after that call has started, else before
};

// What all groups of one rank share.
struct StormState {
  StormPlan plan;
  int rank = 0;  // in the world
  std::int64_t calls = 0;
  std::int64_t events = 0;
};

class StormCommunicator final : public Communicator {
 public:
  // `world` must outlive it, as must groups split from it.
  StormCommunicator(Communicator& world, StormPlan plan);

  std::int64_t calls() const { return state_->calls; }

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void attach(Backend& backend) override { inner_.attach(backend); }
  Pending all_reduce(const Tensor& x, ReduceOp op) override;
  Pending all_gather(const Tensor& piece, const Tensor& whole) override;
  Pending reduce_scatter(const Tensor& whole, const Tensor& piece) override;
  Pending broadcast(const Tensor& x, int root) override;
  Pending send(const Tensor& x, int to) override;
  Pending recv(const Tensor& x, int from) override;
  void barrier() override;
  std::unique_ptr<Communicator> split(int color, int key, std::string axis) override;
  void abort(const std::string& reason) noexcept override { inner_.abort(reason); }
  void set_place(std::string place) override { inner_.set_place(std::move(place)); }
  const Traffic& traffic() const override { return inner_.traffic(); }
  void reset_traffic() override { inner_.reset_traffic(); }
  std::string recent_calls() const override { return inner_.recent_calls(); }
  void set_observer(CommObserver observer) override { inner_.set_observer(std::move(observer)); }

 private:
  StormCommunicator(std::unique_ptr<Communicator> group, std::shared_ptr<StormState> state);

  template <typename Start>
  Pending stormy(const char* operation, const Start& start);
  // Counts a call; true if it is the last one.
  bool last_call();

  std::unique_ptr<Communicator> owned_;
  Communicator& inner_;
  std::shared_ptr<StormState> state_;
};

}  // namespace trireme::test
