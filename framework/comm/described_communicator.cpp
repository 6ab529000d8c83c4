#include "framework/comm/described_communicator.h"

#include "framework/base/error.h"

namespace trireme {

namespace {

class DescribedCommunicator : public Communicator {
 public:
  DescribedCommunicator(int rank, int size, std::string axis)
      : Communicator(std::move(axis)), rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void attach(Backend&) override {}

  Pending all_reduce(const Tensor&, ReduceOp) override { refuse("all_reduce"); }
  Pending all_gather(const Tensor&, const Tensor&) override { refuse("all_gather"); }
  Pending reduce_scatter(const Tensor&, const Tensor&) override { refuse("reduce_scatter"); }
  Pending broadcast(const Tensor&, int) override { refuse("broadcast"); }
  Pending send(const Tensor&, int) override { refuse("send"); }
  Pending recv(const Tensor&, int) override { refuse("recv"); }
  void barrier() override { refuse("barrier"); }
  std::unique_ptr<Communicator> split(int, int, std::string) override { refuse("split"); }

  void abort(const std::string&) noexcept override {}
  void set_place(std::string) override {}
  void set_observer(CommObserver) override {}
  const Traffic& traffic() const override { return traffic_; }
  void reset_traffic() override {}
  std::string recent_calls() const override { return {}; }

 private:
  [[noreturn]] void refuse(const char* operation) const {
    fail("described group \"", axis(), "\" (rank ", rank_, " of ", size_,
         ") cannot communicate: ", operation);
  }

  int rank_, size_;
  Traffic traffic_;  // always empty
};

}  // namespace

std::unique_ptr<Communicator> describe_communicator(int rank, int size, std::string axis) {
  check(size >= 1 && rank >= 0 && rank < size, "described group \"", axis, "\" has no rank ", rank,
        " of ", size);
  return std::make_unique<DescribedCommunicator>(rank, size, std::move(axis));
}

}  // namespace trireme
