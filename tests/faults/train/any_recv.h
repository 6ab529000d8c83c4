// A planted bug: messages that lie in a box per rank, and a receive that takes whichever came first
// instead of the first of its source. Without the bug it is a right communicator. One pipeline
// group; everything else passes on.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "framework/backend/host_values.h"
#include "framework/base/error.h"
#include "tests/support/baton.h"

namespace trireme::test {

struct Mailboxes {
  Baton& baton;
  bool from_any = false;
  struct Message {
    int from = 0;
    std::vector<double> values;
  };
  std::map<int, std::deque<Message>> boxes = {};  // by receiver
};

class MailedCommunicator final : public Communicator {
 public:
  MailedCommunicator(std::unique_ptr<Communicator> owned, Communicator& inner, Mailboxes& boxes,
                     Backend* const& backend)
      : Communicator(inner.axis()),
        owned_(std::move(owned)),
        inner_(inner),
        boxes_(boxes),
        backend_(backend) {}
  MailedCommunicator(Communicator& world, Mailboxes& boxes)
      : MailedCommunicator(nullptr, world, boxes, attached_) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void attach(Backend& backend) override {
    attached_ = &backend;
    inner_.attach(backend);
  }
  Pending all_reduce(const Tensor& x, ReduceOp op) override { return inner_.all_reduce(x, op); }
  Pending all_gather(const Tensor& piece, const Tensor& whole) override {
    return inner_.all_gather(piece, whole);
  }
  Pending reduce_scatter(const Tensor& whole, const Tensor& piece) override {
    return inner_.reduce_scatter(whole, piece);
  }
  Pending broadcast(const Tensor& x, int root) override { return inner_.broadcast(x, root); }
  Pending send(const Tensor& x, int to) override {
    boxes_.baton.park(rank(), [] { return true; });  // others may be first
    boxes_.boxes[to].push_back({rank(), download_doubles(*backend_, x)});
    return {};
  }
  Pending recv(const Tensor& x, int from) override {
    return Pending([this, x, from] {
      std::deque<Mailboxes::Message>& box = boxes_.boxes[rank()];
      const auto wanted = [&] {
        return std::find_if(box.begin(), box.end(), [&](const Mailboxes::Message& message) {
          return boxes_.from_any || message.from == from;
        });
      };
      boxes_.baton.park(rank(), [&] { return wanted() != box.end(); });
      const auto message = wanted();
      check(std::ssize(message->values) == x.elements(), "a message of another size");
      upload_doubles(*backend_, message->values, x);
      box.erase(message);
    });
  }
  void barrier() override { inner_.barrier(); }
  std::unique_ptr<Communicator> split(int color, int key, std::string axis) override {
    std::unique_ptr<Communicator> part = inner_.split(color, key, std::move(axis));
    if (!part) return nullptr;
    Communicator& inside = *part;
    return std::make_unique<MailedCommunicator>(std::move(part), inside, boxes_, backend_);
  }
  void abort(const std::string& reason) noexcept override { inner_.abort(reason); }
  void set_place(std::string place) override { inner_.set_place(std::move(place)); }
  void set_observer(CommObserver observer) override { inner_.set_observer(std::move(observer)); }
  const Traffic& traffic() const override { return inner_.traffic(); }
  void reset_traffic() override { inner_.reset_traffic(); }
  std::string recent_calls() const override { return inner_.recent_calls(); }

 private:
  std::unique_ptr<Communicator> owned_;
  Communicator& inner_;
  Mailboxes& boxes_;
  Backend* attached_ = nullptr;  // of the world's
  Backend* const& backend_;
};

inline std::unique_ptr<Communicator> mailed(Communicator& world, Mailboxes& boxes) {
  return std::make_unique<MailedCommunicator>(world, boxes);
}

}  // namespace trireme::test
