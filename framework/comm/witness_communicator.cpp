#include "framework/comm/witness_communicator.h"

#include <array>
#include <map>
#include <utility>

#include "framework/backend/fingerprint.h"
#include "framework/base/error.h"

namespace trireme {

struct WitnessRecord {
  Backend* backend = nullptr;
  bool on = false;
  std::vector<CommEvent> events;
  std::map<std::uint64_t, std::uint64_t> calls;  // so far, by group or pair of ranks
  Tensor sum;                                    // (2) f64
};

namespace {

std::uint64_t joined_name(std::uint64_t name, std::uint64_t part) {
  return mixed_word(name + fingerprint_offset(part, 1));
}

}  // namespace

WitnessCommunicator::WitnessCommunicator(Communicator& world)
    : Communicator(world.axis()),
      inner_(world),
      record_(std::make_shared<WitnessRecord>()),
      name_(0) {}

WitnessCommunicator::WitnessCommunicator(std::unique_ptr<Communicator> group,
                                         std::shared_ptr<WitnessRecord> record, std::uint64_t name)
    : Communicator(group->axis()),
      owned_(std::move(group)),
      inner_(*owned_),
      record_(std::move(record)),
      name_(name) {}

WitnessCommunicator::~WitnessCommunicator() = default;

void WitnessCommunicator::attach(Backend& backend) {
  record_->backend = &backend;
  inner_.attach(backend);
}

void WitnessCommunicator::begin_record() {
  check(record_->backend != nullptr, "witness: no backend was attached to the communicator");
  record_->events.clear();
  record_->calls.clear();
  record_->sum = record_->backend->allocate({2}, DType::kF64, MemoryKind::kWorkspace);
  record_->on = true;
}

std::vector<CommEvent> WitnessCommunicator::end_record() {
  record_->on = false;
  record_->sum = {};
  return std::exchange(record_->events, {});
}

// Members call in the same order, so they count alike; and so do the two ends of a pair.
std::uint64_t WitnessCommunicator::collective() {
  return joined_name(name_, 2 * ++record_->calls[name_]);
}

std::uint64_t WitnessCommunicator::message(int from, int to) {
  const auto pair = static_cast<std::uint64_t>(from) * static_cast<std::uint64_t>(size()) +
                    static_cast<std::uint64_t>(to);
  const std::uint64_t name = joined_name(name_, 2 * pair + 1);
  return joined_name(name, ++record_->calls[name]);
}

void WitnessCommunicator::note(std::uint64_t call, const Tensor& x, bool outgoing,
                               int piece) const {
  if (!record_->on) return;  // ended while an operation was in flight
  Backend& backend = *record_->backend;
  backend.kernels()->fill(record_->sum, 0.0);
  if (x.elements() > 0) backend.train_kernels()->fingerprint(x, 0, 0, 1, record_->sum);
  std::array<double, 2> value{};
  backend.download(record_->sum, value.data());
  record_->events.push_back({.call = call,
                             .value = joined_fingerprint(value[0], value[1]),
                             .outgoing = outgoing,
                             .member = rank(),
                             .piece = piece});
}

template <typename Start>
Pending WitnessCommunicator::witnessed(std::uint64_t call, const Tensor& sent, const Tensor& got,
                                       const Start& start) {
  if (sent) note(call, sent, true);
  if (!got) return start();
  auto pending = std::make_shared<Pending>(start());
  return Pending([this, call, got, pending] {
    pending->wait();
    note(call, got, false);
  });
}

Pending WitnessCommunicator::witnessed_sum(const Tensor& x, ReduceOp op) {
  const std::uint64_t call = collective();
  note(call, x, true);
  auto pending = std::make_shared<Pending>(inner_.all_reduce(x, op));
  return Pending([this, call, x, pending] {
    pending->wait();
    const std::int64_t n = x.elements();
    for (int p = 0; p < size(); ++p) {
      const std::int64_t begin = piece_begin(n, size(), p), end = piece_begin(n, size(), p + 1);
      if (end > begin) note(call, x.elements_at(begin, {end - begin}), false, p);
    }
  });
}

Pending WitnessCommunicator::all_reduce(const Tensor& x, ReduceOp op) {
  return record_->on ? witnessed_sum(x, op) : inner_.all_reduce(x, op);
}

Pending WitnessCommunicator::all_gather(const Tensor& piece, const Tensor& whole) {
  if (!record_->on) return inner_.all_gather(piece, whole);
  return witnessed(collective(), piece, whole, [&] { return inner_.all_gather(piece, whole); });
}

Pending WitnessCommunicator::reduce_scatter(const Tensor& whole, const Tensor& piece) {
  if (!record_->on) return inner_.reduce_scatter(whole, piece);
  return witnessed(collective(), whole, piece, [&] { return inner_.reduce_scatter(whole, piece); });
}

Pending WitnessCommunicator::broadcast(const Tensor& x, int root) {
  if (!record_->on) return inner_.broadcast(x, root);
  return witnessed(collective(), rank() == root ? x : Tensor(), x,
                   [&] { return inner_.broadcast(x, root); });
}

Pending WitnessCommunicator::send(const Tensor& x, int to) {
  if (!record_->on) return inner_.send(x, to);
  return witnessed(message(rank(), to), x, {}, [&] { return inner_.send(x, to); });
}

Pending WitnessCommunicator::recv(const Tensor& x, int from) {
  if (!record_->on) return inner_.recv(x, from);
  return witnessed(message(from, rank()), {}, x, [&] { return inner_.recv(x, from); });
}

std::unique_ptr<Communicator> WitnessCommunicator::split(int color, int key, std::string axis) {
  const std::uint64_t name =
      joined_name(joined_name(name_, 2 * ++splits_ + 1), static_cast<std::uint64_t>(color) + 2);
  std::unique_ptr<Communicator> group = inner_.split(color, key, std::move(axis));
  if (!group) return nullptr;
  return std::unique_ptr<Communicator>(new WitnessCommunicator(std::move(group), record_, name));
}

}  // namespace trireme
