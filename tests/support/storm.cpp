#include "tests/support/storm.h"

#include <thread>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/random.h"

namespace trireme::test {

namespace {

void give_way(StormState& state) {
  if (state.plan.most_yields == 0) return;
  const RngKey key = key_from_seed(state.plan.seed).child(static_cast<std::uint64_t>(state.rank));
  const auto word = random_word(key, static_cast<std::uint64_t>(state.events++));
  const auto times = word % static_cast<std::uint32_t>(state.plan.most_yields + 1);
  for (std::uint32_t i = 0; i < times; ++i) std::this_thread::yield();
}

[[noreturn]] void die(const StormState& state, const char* operation) {
  fail("killed at call ", state.calls, ", ", operation);
}

}  // namespace

StormCommunicator::StormCommunicator(Communicator& world, StormPlan plan)
    : Communicator(world.axis()), inner_(world), state_(std::make_shared<StormState>()) {
  state_->plan = plan;
  state_->rank = world.rank();
}

StormCommunicator::StormCommunicator(std::unique_ptr<Communicator> group,
                                     std::shared_ptr<StormState> state)
    : Communicator(group->axis()),
      owned_(std::move(group)),
      inner_(*owned_),
      state_(std::move(state)) {}

bool StormCommunicator::last_call() {
  ++state_->calls;
  return state_->rank == state_->plan.kill_rank && state_->calls == state_->plan.kill_at;
}

template <typename Start>
Pending StormCommunicator::stormy(const char* operation, const Start& start) {
  const bool last = last_call();
  if (last && !state_->plan.contributes) die(*state_, operation);
  give_way(*state_);
  auto pending = std::make_shared<Pending>(start());
  if (last) die(*state_, operation);
  return Pending([state = state_, pending] {
    give_way(*state);
    pending->wait();
  });
}

Pending StormCommunicator::all_reduce(const Tensor& x, ReduceOp op) {
  return stormy("all_reduce", [&] { return inner_.all_reduce(x, op); });
}

Pending StormCommunicator::all_gather(const Tensor& piece, const Tensor& whole) {
  return stormy("all_gather", [&] { return inner_.all_gather(piece, whole); });
}

Pending StormCommunicator::reduce_scatter(const Tensor& whole, const Tensor& piece) {
  return stormy("reduce_scatter", [&] { return inner_.reduce_scatter(whole, piece); });
}

Pending StormCommunicator::broadcast(const Tensor& x, int root) {
  return stormy("broadcast", [&] { return inner_.broadcast(x, root); });
}

Pending StormCommunicator::send(const Tensor& x, int to) {
  return stormy("send", [&] { return inner_.send(x, to); });
}

Pending StormCommunicator::recv(const Tensor& x, int from) {
  return stormy("recv", [&] { return inner_.recv(x, from); });
}

// Both block, so "contributed" means done.
void StormCommunicator::barrier() {
  const bool last = last_call();
  if (last && !state_->plan.contributes) die(*state_, "barrier");
  give_way(*state_);
  inner_.barrier();
  if (last) die(*state_, "barrier");
}

std::unique_ptr<Communicator> StormCommunicator::split(int color, int key, std::string axis) {
  const bool last = last_call();
  if (last && !state_->plan.contributes) die(*state_, "split");
  give_way(*state_);
  auto group = inner_.split(color, key, std::move(axis));
  if (last) die(*state_, "split");
  if (group == nullptr) return nullptr;
  return std::unique_ptr<Communicator>(new StormCommunicator(std::move(group), state_));
}

}  // namespace trireme::test
