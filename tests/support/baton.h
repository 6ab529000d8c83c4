// Thread ranks whose every event follows from a seed. One rank holds the baton and runs; at the
// points of its communicator calls the baton goes to a rank drawn by Philox(seed, event) among
// those that can run. Time is virtual: when nobody can run, it jumps to the next timer, so a
// timeout of ten minutes costs nothing. For the real thread communicator, through its seam:
//
//   Baton baton(4, {.seed = 7, .late_percent = 10, .victim = 2, .at = 12});
//   run_thread_ranks(4, baton.options(), body);
//   EXPECT_EQ(baton.hash(), hash_of_the_same_seed_before);
//
// Bodies may share memory without locks, and must not wait for each other by other means than
// communicators and park(). Where no timer is left and nobody can run, the ranks are deadlocked:
// deadlock() tells each rank's call, parked ranks are released with an Error, and the clock jumps
// past every timeout, so the run ends.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "framework/base/random.h"
#include "framework/comm/communicator.h"
#include "framework/comm/rank_scheduler.h"

namespace trireme::test {

struct StormPlan {
  std::uint64_t seed = 0;
  int switch_percent = 100;  // of points at which the next holder is drawn
  int late_percent = 0;      // of calls that come 0 to 10 s late
  int slow_rank = -1;        // comes 0 to 2 s late to every call
  bool reorders = false;     // operations in flight advance in drawn orders

  int victim = -1;                     // of the world; -1: nobody
  std::int64_t at = 0;                 // at its k-th call after mark(), from 1,
  CallPoint point = CallPoint::kCall;  // at kCall, kStarted or the next kDone
  bool from_mark = false;              // no call counts before mark()
  bool hangs = false;                  // it never returns, instead of throwing Error
};
std::string text_of(const StormPlan& plan);

// What happened, over one run or added up over many.
struct StormCount {
  std::array<std::int64_t, 9> calls{};  // by CallKind
  std::int64_t late = 0, slow = 0, reordered = 0, switched = 0;
  std::int64_t killed_before = 0, killed_after = 0, killed_done = 0, hung = 0;
  StormCount& operator+=(const StormCount& other);
  std::int64_t faults() const;
  std::vector<std::string> calls_never_made() const;
};

class Baton final : public RankScheduler {
 public:
  // A timeout from here on is none.
  static constexpr double kForever = 1e6;

  Baton(int ranks, const StormPlan& plan);
  // The i-th draw of the next holder gives script[i], later ones 0: to try all of them.
  Baton(int ranks, std::vector<std::uint32_t> script);

  CommunicatorOptions options(double timeout_seconds = 600);

  // --- on a rank's thread ---
  // Counts the rank's calls for the victim anew from here on; with false: no longer.
  void mark(int rank, bool on = true);
  // Holds the rank until `until` is true; Error when that can be no more. `until` runs on any
  // rank's thread.
  void park(int rank, std::function<bool()> until);
  // Never returns, as far as peers see: Error once nobody else can run.
  [[noreturn]] void hang(int rank);
  // The same for a rank that waits for the calling thread, which is none of the ranks: returns
  // when nobody else can run.
  void hang_away(int rank);

  // --- after the run ---
  std::uint64_t hash() const { return hash_; }
  std::int64_t events() const { return events_; }
  double now() const { return static_cast<double>(now_) * 1e-9; }
  const StormCount& count() const { return count_; }
  std::int64_t calls(int rank) const { return at(rank).calls; }  // since mark()
  const std::string& deadlock() const { return deadlock_; }      // empty: there was none
  // The draws of holders: which of how many.
  struct Draw {
    std::uint32_t chosen = 0, of = 0;
  };
  const std::vector<Draw>& draws() const { return draws_; }

  // The seam.
  void begin(int rank) override;
  void end(int rank) noexcept override;
  void reach(int rank, CallPoint point, const Call& call, const std::string& axis) override;
  void sleep(int rank, double seconds) noexcept override;
  void wake(int rank) noexcept override;
  std::size_t first_of(int rank, std::size_t count) noexcept override;

 private:
  using Lock = std::unique_lock<std::mutex>;
  enum class State : std::uint8_t { kAbsent, kReady, kAsleep, kLate, kParked, kAway, kEnded };
  struct Rank {
    State state = State::kAbsent;
    std::int64_t timer = -1;  // of kAsleep and kLate; -1: none
    std::function<bool()> until;
    bool marked = true;
    std::int64_t calls = 0;
    Call call;  // the last one reached
    std::string axis;
    std::condition_variable turn;
  };

  Rank& at(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  const Rank& at(int rank) const { return *ranks_[static_cast<std::size_t>(rank)]; }
  std::uint32_t draw() { return random_word(key_, static_cast<std::uint64_t>(events_++)); }
  void note(int rank, CallPoint point, const Call& call);
  void come_late(int rank, Lock& lock);
  void strike(int rank, const Call& call, const std::string& axis, Lock& lock);
  // Gives the baton to a rank that can run, and waits until it is back.
  void pass_on(int rank, Lock& lock);
  void wait_turn(int rank, Lock& lock);
  void choose();
  std::vector<int> ready();
  bool jump();
  void release();
  std::string report() const;

  const StormPlan plan_;
  const RngKey key_;
  const bool scripted_ = false;
  const std::vector<std::uint32_t> script_;
  mutable std::mutex mutex_;
  std::condition_variable released_signal_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  int holder_ = -1;
  int begun_ = 0;
  std::atomic<std::int64_t> now_{0};  // ns
  bool released_ = false;
  bool struck_ = false;
  std::int64_t events_ = 0;
  std::uint64_t hash_ = 0;
  StormCount count_;
  std::string deadlock_;
  std::vector<Draw> draws_;
};

}  // namespace trireme::test
