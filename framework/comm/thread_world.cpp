#include "framework/comm/thread_world.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <numeric>
#include <thread>

#include "framework/base/error.h"
#include "framework/comm/patience.h"

namespace trireme {

namespace {

// A wake-up costs some microseconds, a short spin much less; but only where every rank has a core.
constexpr int kSpins = 100;
// Longest sleep between two looks at the clock; a test's clock may jump at any moment.
constexpr double kSlice = 1.0, kSliceOfTestClock = 0.005;

int spins_for(int ranks) {
  return static_cast<unsigned>(ranks) <= std::thread::hardware_concurrency() ? kSpins : 0;
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

ThreadWorld::ThreadWorld(int ranks, const CommunicatorOptions& options)
    : options_(options), spins_(spins_for(ranks)), everybody_(std::make_shared<ThreadGroup>()) {
  check(ranks > 0, "a world of ", ranks, " thread ranks: at least one is needed");
  for (int rank = 0; rank < ranks; ++rank) ranks_.push_back(std::make_unique<Rank>());
  everybody_->axis = "world";
  everybody_->members.resize(index(ranks));
  std::iota(everybody_->members.begin(), everybody_->members.end(), 0);
}

double ThreadWorld::now() const { return options_.clock ? options_.clock() : steady_seconds(); }

void ThreadWorld::signal(const std::vector<int>& members) {
  for (const int member : members) {
    ranks_[index(member)]->signals.fetch_add(1, std::memory_order_release);
    ranks_[index(member)]->changed.notify_one();
    if (options_.scheduler) options_.scheduler->wake(member);
  }
}

void ThreadWorld::arrive(ThreadRound& round, std::size_t step) {
  if (++round.arrived[step] == round.seats()) signal(round.members);
}

void ThreadWorld::join(int rank, ThreadGroup& group, const ThreadRoundKey& key,
                       const std::vector<int>& members, const Call& call, const std::byte* memory,
                       const std::shared_ptr<ThreadOperation>& operation) {
  Lock lock(mutex_);
  check(!failure_, failure_ ? peer_failure() : std::string());
  std::vector<std::shared_ptr<ThreadOperation>>& in_flight = ranks_[index(rank)]->in_flight;
  in_flight.reserve(in_flight.size() + 1);  // no memory: before anybody knows
  std::shared_ptr<ThreadRound>& open = group.open[key];
  if (!open) open = std::make_shared<ThreadRound>(members);
  const std::shared_ptr<ThreadRound> round = open;
  round->calls[index(operation->seat)] = call;
  round->memory[index(operation->seat)] = memory;
  round->offered[index(operation->seat)] = std::move(operation->offered);
  round->seated[index(operation->seat)] = 1;
  if (round->arrived[0] + 1 == round->seats()) {
    round->error = mismatch(round->calls, round->members, group.axis);
    group.open.erase(key);
  }
  for (std::size_t step = 0; step < operation->steps.size(); ++step)
    if (!operation->steps[step]) arrive(*round, step + 1);
  arrive(*round, 0);
  operation->round = round;
  operation->uncaught = std::uncaught_exceptions();
  in_flight.push_back(operation);
}

void ThreadWorld::finish(ThreadOperation& operation) {
  operation.done = true;
  operation.steps.clear();
  operation.operands.reset();
}

bool ThreadWorld::advance(int rank, ThreadOperation& operation, Lock& lock) {
  ThreadRound& round = *operation.round;
  if (operation.done || round.stopped()) return false;
  if (round.arrived[operation.step] < round.seats()) return false;
  if (operation.step < operation.steps.size())
    run_step(rank, operation, lock);
  else
    finish(operation);
  if (operation.step == operation.steps.size() && !operation.read_to_the_end) finish(operation);
  return true;
}

void ThreadWorld::run_step(int rank, ThreadOperation& operation, Lock& lock) {
  ThreadRound& round = *operation.round;
  const ThreadOperation::Step step = std::move(operation.steps[operation.step]);
  if (!step) {
    ++operation.step;
    return;
  }
  ++round.running;
  lock.unlock();
  std::exception_ptr failure;
  try {
    reach(rank, CallPoint::kStep, round.calls[index(operation.seat)], operation.axis);
    step();
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  --round.running;
  if (failure) round.withdrawn = true;
  if (round.withdrawn) signal(round.members);
  if (failure) std::rethrow_exception(failure);
  arrive(round, ++operation.step);
}

bool ThreadWorld::advance_all(int rank, Lock& lock) {
  Rank& me = *ranks_[index(rank)];
  bool moved = false;
  // Only this thread changes in_flight, so the index stays valid while a step runs unlocked.
  const std::size_t count = me.in_flight.size();
  const std::size_t first = options_.scheduler ? options_.scheduler->first_of(rank, count) : 0;
  for (std::size_t i = 0; i < count; ++i)
    moved |= advance(rank, *me.in_flight[(first + i) % count], lock);
  std::erase_if(me.in_flight, [](const auto& operation) { return operation->done; });
  return moved;
}

void ThreadWorld::block(int rank, std::uint64_t seen, double seconds, Lock& lock) {
  Rank& me = *ranks_[index(rank)];
  const auto changed = [&] { return me.signals.load(std::memory_order_acquire) != seen; };
  if (options_.scheduler) {
    if (changed()) return;
    lock.unlock();
    options_.scheduler->sleep(rank, seconds);
    lock.lock();
    return;
  }
  if (spins_ > 0) {
    lock.unlock();
    for (int spin = 0; spin < spins_ && !changed(); ++spin) __builtin_ia32_pause();
    lock.lock();
  }
  const double slice =
      std::min(options_.clock ? kSliceOfTestClock : kSlice, std::max(seconds, 0.0));
  me.changed.wait_for(lock, std::chrono::duration<double>(slice), changed);
}

void ThreadWorld::withdraw(int rank, const std::shared_ptr<ThreadOperation>& operation,
                           Lock& lock) {
  Rank& me = *ranks_[index(rank)];
  ThreadRound& round = *operation->round;
  std::erase(me.in_flight, operation);
  round.withdrawn = true;
  signal(round.members);
  while (round.running > 0)
    block(rank, me.signals.load(std::memory_order_acquire), kSliceOfTestClock, lock);
  operation->steps.clear();
  operation->operands.reset();
}

void ThreadWorld::wait(int rank, const std::shared_ptr<ThreadOperation>& operation) {
  const Call& call = operation->round->calls[index(operation->seat)];
  try {
    reach(rank, CallPoint::kWait, call, operation->axis);
    wait_until_done(rank, *operation);
    reach(rank, CallPoint::kDone, call, operation->axis);
  } catch (...) {
    give_up(rank, operation, reason_of(std::current_exception()));
    throw;
  }
}

// Peers must learn of it even when there is no memory left for the reason.
void ThreadWorld::give_up(int rank, const std::shared_ptr<ThreadOperation>& operation,
                          const std::string& reason) noexcept {
  Lock lock(mutex_);
  std::string& failure = state(rank).failure;
  if (failure.empty()) remember(failure, reason);
  if (!operation->done) withdraw(rank, operation, lock);
}

void ThreadWorld::wait_until_done(int rank, ThreadOperation& operation) {
  Rank& me = *ranks_[index(rank)];
  Lock lock(mutex_);
  if (operation.done) return;
  check(me.state.failure.empty(), me.state.failure);
  check(std::uncaught_exceptions() <= operation.uncaught,
        text_of(operation.round->calls[index(operation.seat)], operation.axis),
        " was given up because an exception passed it");
  Patience patience(now(), options_.clock ? Patience::kAllOfIt : 2 * kSlice);
  while (!operation.done) {
    const std::uint64_t seen = me.signals.load(std::memory_order_acquire);
    if (advance_all(rank, lock)) continue;
    const double waited = patience.waited(now());
    const std::string reason = obstacle(operation, waited);
    check(reason.empty(), reason);
    block(rank, seen, options_.timeout_seconds - waited, lock);
  }
}

std::string ThreadWorld::peer_failure() const {
  const auto& [rank, reason] = *failure_;
  return trireme::join("rank ", rank, " failed: ", reason, "; its last call was ",
                       ranks_[index(rank)]->state.log.last());
}

std::string ThreadWorld::obstacle(const ThreadOperation& operation, double waited) const {
  const ThreadRound& round = *operation.round;
  if (!round.error.empty()) return round.error;
  if (failure_) return peer_failure();
  for (std::size_t seat = 0; seat < round.members.size(); ++seat)
    if (!round.seated[seat] && ranks_[index(round.members[seat])]->ended)
      return trireme::join("rank ", round.members[seat], " has ended without joining ",
                           text_of(round.calls[index(operation.seat)], operation.axis));
  return waited >= options_.timeout_seconds ? timeout_text(operation) : std::string();
}

std::string ThreadWorld::timeout_text(const ThreadOperation& operation) const {
  const ThreadRound& round = *operation.round;
  const auto place_of = [&](int rank) {
    const std::string place = ranks_[index(rank)]->state.log.place();
    return place.empty() ? std::string() : " at " + place;
  };
  std::string text = trireme::join(text_of(round.calls[index(operation.seat)], operation.axis),
                                   place_of(round.members[index(operation.seat)]),
                                   " did not complete in ", options_.timeout_seconds, " s");
  for (std::size_t seat = 0; seat < round.members.size(); ++seat) {
    const int rank = round.members[seat];
    if (index(operation.seat) == seat) continue;
    const CallLog& log = ranks_[index(rank)]->state.log;
    if (!round.seated[seat])
      text += trireme::join("; rank ", rank, " has not arrived: it is",
                            place_of(rank).empty() ? " at an unnamed place" : place_of(rank),
                            ", its last call was ", log.last());
    else
      text += trireme::join("; rank ", rank, " has arrived, its last call was ", log.last());
  }
  return text;
}

std::shared_ptr<ThreadGroup> ThreadWorld::group_of(ThreadRound& round, int color,
                                                   const std::string& axis,
                                                   std::vector<int> members) {
  Lock lock(mutex_);
  auto& group = round.split[color];
  if (!group) {
    group = std::make_shared<ThreadGroup>();
    group->axis = axis;
    group->members = std::move(members);
  }
  return group;
}

void ThreadWorld::fail(int rank, const std::string& reason) noexcept {
  Lock lock(mutex_);
  if (failure_) return;
  failure_.emplace(rank, std::string());
  remember(failure_->second, reason);
  remember(ranks_[index(rank)]->state.failure, reason);
  signal(everybody_->members);
}

void ThreadWorld::end(int rank) {
  Lock lock(mutex_);
  ranks_[index(rank)]->ended = true;
  signal(everybody_->members);
}

std::optional<std::pair<int, std::string>> ThreadWorld::failure() {
  Lock lock(mutex_);
  return failure_;
}

std::string ThreadWorld::recent_calls() const {
  std::string text;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    text += ranks_[rank]->state.log.lines(trireme::join("rank ", rank, ": "));
  return text;
}

}  // namespace trireme
