#include "tests/support/baton.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "framework/base/error.h"

namespace trireme::test {

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

const char* name_of(CallPoint point) {
  switch (point) {
    case CallPoint::kCall:
      return "before contributing to ";
    case CallPoint::kStarted:
      return "after contributing to ";
    default:
      return "after its part of ";
  }
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

}  // namespace

std::string text_of(const StormPlan& p) {
  std::string text = join("seed ", p.seed, ", switches ", p.switch_percent, " %, late ",
                          p.late_percent, " %", p.reorders ? ", reorders" : "");
  if (p.slow_rank >= 0) text += join(", slow rank ", p.slow_rank);
  if (p.victim >= 0)
    text += join(", rank ", p.victim, p.hangs ? " hangs " : " is killed ", name_of(p.point),
                 "call ", p.at);
  return text;
}

StormCount& StormCount::operator+=(const StormCount& other) {
  for (std::size_t i = 0; i < calls.size(); ++i) calls[i] += other.calls[i];
  late += other.late;
  slow += other.slow;
  reordered += other.reordered;
  switched += other.switched;
  killed_before += other.killed_before;
  killed_after += other.killed_after;
  killed_done += other.killed_done;
  hung += other.hung;
  return *this;
}

std::int64_t StormCount::faults() const {
  return late + slow + reordered + killed_before + killed_after + killed_done + hung;
}

std::vector<std::string> StormCount::calls_never_made() const {
  std::vector<std::string> never;
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (calls[i] == 0) never.emplace_back(trireme::name_of(static_cast<CallKind>(i)));
  return never;
}

Baton::Baton(int ranks, const StormPlan& plan)
    : plan_(plan), key_(key_from_seed(plan.seed).child("baton")) {
  for (int rank = 0; rank < ranks; ++rank) {
    ranks_.push_back(std::make_unique<Rank>());
    ranks_.back()->marked = !plan.from_mark;
  }
}

Baton::Baton(int ranks, std::vector<std::uint32_t> script)
    : key_(key_from_seed(0)), scripted_(true), script_(std::move(script)) {
  for (int rank = 0; rank < ranks; ++rank) ranks_.push_back(std::make_unique<Rank>());
}

CommunicatorOptions Baton::options(double timeout_seconds) {
  return {.timeout_seconds = timeout_seconds, .clock = [this] { return now(); }, .scheduler = this};
}

void Baton::mark(int rank, bool on) {
  at(rank).marked = on;
  if (on) at(rank).calls = 0;
}

void Baton::park(int rank, std::function<bool()> until) {
  Lock lock(mutex_);
  at(rank).state = State::kParked;
  at(rank).until = std::move(until);
  pass_on(rank, lock);
  check(at(rank).until(), "rank ", rank, " waits for what can come no more");
}

void Baton::hang(int rank) {
  Lock lock(mutex_);
  ++count_.hung;
  at(rank).state = State::kParked;
  at(rank).until = [] { return false; };
  pass_on(rank, lock);
  fail("rank ", rank, " hung until nobody else was left");
}

void Baton::hang_away(int rank) {
  Lock lock(mutex_);
  ++count_.hung;
  at(rank).state = State::kAway;
  if (holder_ == rank) choose();
  released_signal_.wait(lock, [&] { return released_; });
}

void Baton::begin(int rank) {
  Lock lock(mutex_);
  at(rank).state = State::kReady;
  if (++begun_ == static_cast<int>(ranks_.size())) choose();
  wait_turn(rank, lock);
}

void Baton::end(int rank) noexcept {
  Lock lock(mutex_);
  at(rank).state = State::kEnded;
  if (holder_ == rank || holder_ < 0) choose();
}

void Baton::note(int rank, CallPoint point, const Call& call) {
  Rank& me = at(rank);
  me.call = call;
  hash_ =
      mixed(hash_, static_cast<std::uint64_t>(rank) << 16 | static_cast<std::uint64_t>(point) << 8 |
                       static_cast<std::uint64_t>(call.kind));
  hash_ = mixed(hash_, static_cast<std::uint64_t>(call.bytes()));
  hash_ = mixed(hash_, static_cast<std::uint64_t>(call.sequence));
  hash_ = mixed(hash_, static_cast<std::uint64_t>(now_));
  if (point != CallPoint::kCall) return;
  ++count_.calls[static_cast<std::size_t>(call.kind)];
  if (me.marked) ++me.calls;
}

void Baton::reach(int rank, CallPoint point, const Call& call, const std::string& axis) {
  Lock lock(mutex_);
  if (at(rank).state == State::kAway) {  // back from hang_away
    at(rank).state = State::kReady;
    if (holder_ < 0) choose();
    wait_turn(rank, lock);
  }
  note(rank, point, call);
  at(rank).axis = axis;
  if (scripted_) {
    if (point == CallPoint::kCall) pass_on(rank, lock);
    return;
  }
  if (point == CallPoint::kCall) come_late(rank, lock);
  if (rank == plan_.victim && point == plan_.point && !struck_ && at(rank).marked &&
      at(rank).calls >= plan_.at)
    strike(rank, call, axis, lock);
  if (plan_.switch_percent < 100 &&
      draw() % 100 >= static_cast<std::uint32_t>(plan_.switch_percent))
    return;
  pass_on(rank, lock);
}

void Baton::come_late(int rank, Lock& lock) {
  std::int64_t delay = 0;
  if (plan_.late_percent > 0 && draw() % 100 < static_cast<std::uint32_t>(plan_.late_percent)) {
    delay += 10 * kSecond / 1000 * (draw() % 1001);
    ++count_.late;
  }
  if (rank == plan_.slow_rank) {
    delay += 2 * kSecond / 1000 * (draw() % 1001);
    ++count_.slow;
  }
  if (delay == 0) return;
  at(rank).state = State::kLate;
  at(rank).timer = now_ + delay;
  pass_on(rank, lock);
}

void Baton::strike(int rank, const Call& call, const std::string& axis, Lock& lock) {
  struck_ = true;
  if (plan_.hangs) {
    lock.unlock();
    hang(rank);
  }
  ++(plan_.point == CallPoint::kCall      ? count_.killed_before
     : plan_.point == CallPoint::kStarted ? count_.killed_after
                                          : count_.killed_done);
  fail("killed ", name_of(plan_.point), trireme::text_of(call, axis));
}

void Baton::sleep(int rank, double seconds) noexcept {
  Lock lock(mutex_);
  at(rank).state = State::kAsleep;
  at(rank).timer = seconds >= kForever ? -1
                                       : now_ + std::max<std::int64_t>(
                                                    1, std::llround(std::ceil(seconds * kSecond)));
  pass_on(rank, lock);
}

void Baton::wake(int rank) noexcept {
  const Lock lock(mutex_);
  if (at(rank).state == State::kAsleep) at(rank).state = State::kReady;
}

std::size_t Baton::first_of(int, std::size_t count) noexcept {
  if (!plan_.reorders || scripted_ || count < 2) return 0;
  const Lock lock(mutex_);
  const std::size_t first = draw() % count;
  count_.reordered += first != 0 ? 1 : 0;
  return first;
}

void Baton::pass_on(int rank, Lock& lock) {
  choose();
  if (holder_ != rank) ++count_.switched;
  wait_turn(rank, lock);
}

void Baton::wait_turn(int rank, Lock& lock) {
  at(rank).turn.wait(lock, [&] { return holder_ == rank; });
  at(rank).state = State::kReady;
}

std::vector<int> Baton::ready() {
  std::vector<int> able;
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
    const Rank& r = at(rank);
    if (r.state == State::kReady || (r.state == State::kParked && (released_ || r.until())))
      able.push_back(rank);
  }
  return able;
}

// To the next timer; false if there is none.
bool Baton::jump() {
  std::int64_t next = -1;
  const auto sleeps = [](const Rank& r) {
    return (r.state == State::kAsleep || r.state == State::kLate) && r.timer >= 0;
  };
  for (const auto& r : ranks_)
    if (sleeps(*r) && (next < 0 || r->timer < next)) next = r->timer;
  if (next < 0) return false;
  now_ = std::max<std::int64_t>(now_, next);
  for (const auto& r : ranks_)
    if (sleeps(*r) && r->timer <= next) r->state = State::kReady;
  return true;
}

// Nobody can run, and no time that passes changes that.
void Baton::release() {
  deadlock_ = report();
  released_ = true;
  released_signal_.notify_all();
  now_ += static_cast<std::int64_t>(2 * kForever) * kSecond;
  for (const auto& r : ranks_)
    if (r->state == State::kAsleep) r->state = State::kReady;
}

std::string Baton::report() const {
  std::string text = join("nobody can run at ", now(), " s:");
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
    const Rank& r = at(rank);
    if (r.state == State::kEnded) continue;
    const char* what = r.state == State::kAsleep ? " waits in " : " never returns from ";
    text += join(" rank ", rank, what, trireme::text_of(r.call, r.axis), ";");
  }
  return text;
}

void Baton::choose() {
  holder_ = -1;
  std::vector<int> able = ready();
  while (able.empty() && jump()) able = ready();
  if (able.empty()) {
    const bool left = std::any_of(ranks_.begin(), ranks_.end(),
                                  [](const auto& r) { return r->state != State::kEnded; });
    if (!left) return;
    release();
    able = ready();
    if (able.empty()) return;  // all that are left are away
  }
  std::uint32_t chosen = 0;
  if (able.size() > 1) {
    const auto count = static_cast<std::uint32_t>(able.size());
    const std::size_t number = draws_.size();
    chosen = scripted_ ? (number < script_.size() ? script_[number] : 0) : draw() % count;
    if (scripted_) draws_.push_back({chosen, count});
  }
  holder_ = able[chosen];
  at(holder_).turn.notify_one();
}

}  // namespace trireme::test
