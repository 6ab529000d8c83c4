// A communicator whose operations take their time: each gives other threads a seeded number of
// turns before it starts and before its wait ends, in all groups that are split from it. Ranks then
// meet in many orders without anybody sleeping, and a buffer that is reused too early shows.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "framework/base/random.h"
#include "framework/comm/communicator.h"

namespace trireme::test {

class SlowCommunicator final : public Communicator {
 public:
  // `inner` must outlive it and what is split from it.
  SlowCommunicator(Communicator& inner, std::uint64_t seed)
      : SlowCommunicator(nullptr, inner,
                         key_from_seed(seed).child(static_cast<std::uint64_t>(inner.rank()))) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void attach(Backend& backend) override { inner_.attach(backend); }
  Pending all_reduce(const Tensor& x, ReduceOp op) override {
    return slow([&] { return inner_.all_reduce(x, op); });
  }
  Pending all_gather(const Tensor& piece, const Tensor& whole) override {
    return slow([&] { return inner_.all_gather(piece, whole); });
  }
  Pending reduce_scatter(const Tensor& whole, const Tensor& piece) override {
    return slow([&] { return inner_.reduce_scatter(whole, piece); });
  }
  Pending broadcast(const Tensor& x, int root) override {
    return slow([&] { return inner_.broadcast(x, root); });
  }
  Pending send(const Tensor& x, int to) override {
    return slow([&] { return inner_.send(x, to); });
  }
  Pending recv(const Tensor& x, int from) override {
    return slow([&] { return inner_.recv(x, from); });
  }
  void barrier() override {
    dawdle();
    inner_.barrier();
  }
  std::unique_ptr<Communicator> split(int color, int key, std::string axis) override {
    std::unique_ptr<Communicator> part = inner_.split(color, key, std::move(axis));
    if (!part) return nullptr;
    Communicator& inside = *part;
    return std::unique_ptr<Communicator>(
        new SlowCommunicator(std::move(part), inside, key_.child(inside.axis())));
  }
  void abort(const std::string& reason) noexcept override { inner_.abort(reason); }
  void set_place(std::string place) override { inner_.set_place(std::move(place)); }
  void set_observer(CommObserver observer) override { inner_.set_observer(std::move(observer)); }
  const Traffic& traffic() const override { return inner_.traffic(); }
  void reset_traffic() override { inner_.reset_traffic(); }
  std::string recent_calls() const override { return inner_.recent_calls(); }

 private:
  SlowCommunicator(std::unique_ptr<Communicator> owned, Communicator& inner, RngKey key)
      : Communicator(inner.axis()), owned_(std::move(owned)), inner_(inner), key_(key) {}

  // Most calls are quick; some last for hundreds of turns.
  void dawdle() {
    const std::uint32_t word = random_word(key_, calls_++);
    const std::uint32_t turns = word % 4 == 0 ? word / 4 % 300 : word / 4 % 4;
    for (std::uint32_t i = 0; i < turns; ++i) std::this_thread::yield();
  }

  template <typename Start>
  Pending slow(const Start& start) {
    dawdle();
    auto pending = std::make_shared<Pending>(start());
    return Pending([this, pending] {
      dawdle();
      pending->wait();
    });
  }

  std::unique_ptr<Communicator> owned_;
  Communicator& inner_;
  RngKey key_;
  std::uint64_t calls_ = 0;
};

}  // namespace trireme::test
