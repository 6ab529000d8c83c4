// A communicator that passes every call on, writes down when operations start and are waited for,
// and may be slow: overlap is then an order that a test can read, and a race has time to show.
#pragma once

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "framework/comm/communicator.h"

namespace trireme::test {

class LoggedCommunicator final : public Communicator {
 public:
  // Both must outlive it. `delay`: microseconds that call number n sleeps before it starts.
  LoggedCommunicator(Communicator& inner, std::vector<std::string>& log,
                     std::function<int(int call)> delay = {})
      : Communicator(inner.axis()), inner_(inner), log_(log), delay_(std::move(delay)) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void attach(Backend& backend) override { inner_.attach(backend); }
  Pending all_reduce(const Tensor& x, ReduceOp op) override {
    return logged("all_reduce", [&] { return inner_.all_reduce(x, op); });
  }
  Pending all_gather(const Tensor& piece, const Tensor& whole) override {
    return logged("all_gather", [&] { return inner_.all_gather(piece, whole); });
  }
  Pending reduce_scatter(const Tensor& whole, const Tensor& piece) override {
    return logged("reduce_scatter", [&] { return inner_.reduce_scatter(whole, piece); });
  }
  Pending broadcast(const Tensor& x, int root) override {
    return logged("broadcast", [&] { return inner_.broadcast(x, root); });
  }
  Pending send(const Tensor& x, int to) override {
    return logged("send", [&] { return inner_.send(x, to); });
  }
  Pending recv(const Tensor& x, int from) override {
    return logged("recv", [&] { return inner_.recv(x, from); });
  }
  void barrier() override { inner_.barrier(); }
  std::unique_ptr<Communicator> split(int color, int key, std::string axis) override {
    return inner_.split(color, key, std::move(axis));
  }
  void abort(const std::string& reason) noexcept override { inner_.abort(reason); }
  void set_place(std::string place) override { inner_.set_place(std::move(place)); }
  const Traffic& traffic() const override { return inner_.traffic(); }
  void reset_traffic() override { inner_.reset_traffic(); }
  std::string recent_calls() const override { return inner_.recent_calls(); }
  void set_observer(CommObserver observer) override { inner_.set_observer(std::move(observer)); }

 private:
  template <typename Start>
  Pending logged(const std::string& name, const Start& start) {
    if (delay_) std::this_thread::sleep_for(std::chrono::microseconds(delay_(calls_++)));
    log_.push_back("start " + name);
    auto pending = std::make_shared<Pending>(start());
    return Pending([this, name, pending] {
      log_.push_back("wait " + name);
      pending->wait();
    });
  }

  Communicator& inner_;
  std::vector<std::string>& log_;
  std::function<int(int)> delay_;
  int calls_ = 0;
};

}  // namespace trireme::test
