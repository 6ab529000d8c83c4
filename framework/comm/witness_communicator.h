// A communicator that can write down, call by call, what a rank sent and what it got: fingerprints,
// not bytes. Two records of the same step then tell where its runs parted, and so which rank
// computed something else (recipes/train/step_verifier.h; arXiv 2604.00726 recomputes steps).
//
// It wraps a world and, by split, all groups made from it; all share one record. Outside of a
// record every call is passed on as it is: nothing is hashed, copied or counted. Inside one each
// call adds events in the order of this rank's program: what goes out when the call is made, what
// came in when its wait returned. A sum adds one event for each rank's piece of the result, since
// every rank sums a piece (communicator.h): what all ranks got alike, but wrong, leads to one.
// Operands are read by the backend alone. barrier() and split() add no event.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"

namespace trireme {

struct CommEvent {
  std::uint64_t call = 0;   // the same for all ranks that take part in a call, unlike all others
  std::uint64_t value = 0;  // fingerprint of the operand
  bool outgoing = false;
  int member = 0;  // this rank's number in the group
  int piece = -1;  // of a sum: whose piece of the result
  bool operator==(const CommEvent&) const = default;
};

// Of one rank, shared by its groups. Internal.
struct WitnessRecord;

class WitnessCommunicator final : public Communicator {
 public:
  // `world` must outlive it; it must outlive what is split from it.
  explicit WitnessCommunicator(Communicator& world);
  ~WitnessCommunicator() override;

  // Between them all calls of this rank's groups are recorded. All ranks of the world begin at the
  // same place of their programs, with no operation in flight. Takes 16 bytes of the device.
  void begin_record();
  std::vector<CommEvent> end_record();

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void attach(Backend& backend) override;
  Pending all_reduce(const Tensor& x, ReduceOp op) override;
  Pending all_gather(const Tensor& piece, const Tensor& whole) override;
  Pending reduce_scatter(const Tensor& whole, const Tensor& piece) override;
  Pending broadcast(const Tensor& x, int root) override;
  Pending send(const Tensor& x, int to) override;
  Pending recv(const Tensor& x, int from) override;
  void barrier() override { inner_.barrier(); }
  std::unique_ptr<Communicator> split(int color, int key, std::string axis) override;
  void abort(const std::string& reason) noexcept override { inner_.abort(reason); }
  void set_place(std::string place) override { inner_.set_place(std::move(place)); }
  void set_observer(CommObserver observer) override { inner_.set_observer(std::move(observer)); }
  const Traffic& traffic() const override { return inner_.traffic(); }
  void reset_traffic() override { inner_.reset_traffic(); }
  std::string recent_calls() const override { return inner_.recent_calls(); }

 private:
  WitnessCommunicator(std::unique_ptr<Communicator> group, std::shared_ptr<WitnessRecord> record,
                      std::uint64_t name);
  std::uint64_t collective();
  std::uint64_t message(int from, int to);
  void note(std::uint64_t call, const Tensor& x, bool outgoing, int piece = -1) const;
  // Notes `sent`, starts, and notes `got` once that is waited for; either may be undefined.
  template <typename Start>
  Pending witnessed(std::uint64_t call, const Tensor& sent, const Tensor& got, const Start& start);
  Pending witnessed_sum(const Tensor& x, ReduceOp op);

  std::unique_ptr<Communicator> owned_;
  Communicator& inner_;
  std::shared_ptr<WitnessRecord> record_;
  std::uint64_t name_;        // of the group, the same for its members
  std::uint64_t splits_ = 0;  // made of this group so far
};

}  // namespace trireme
