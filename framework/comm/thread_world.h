// The state that thread ranks of one world share: groups, rounds, failures. Internal.
//
// A round is one operation of one group. Every member takes a seat with its call and the memory
// that peers may read; the work of a round is cut into steps, and step k begins on a rank when all
// members have passed step k - 1 (step 0: have taken their seat). One mutex guards all of this; the
// steps themselves (sums, copies) run without it.
//
// Progress: a rank that waits advances *all* of its operations in flight, whatever it waits for.
// So ranks may wait for several operations in different orders: whichever wait a rank sits in, the
// steps that peers need from it are done.
//
// Memory: peers read operands by address, only inside a step; those of quick_all_reduce as copies
// that the round owns, so that no rank waits until others have read: at most kQuickBytes each, of
// host memory that no ledger counts. A rank that gives up an operation (error, unwinding) withdraws
// its round: no step begins after that, and it returns when the running ones have ended. So nobody
// reads memory after the Pending of its owner is gone.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "framework/comm/rank_communicator.h"
#include "framework/comm/rank_scheduler.h"

namespace trireme {

struct ThreadGroup;

struct ThreadRound {
  static constexpr int kSteps = 3;  // arrivals before step 0, before step 1, after the last

  explicit ThreadRound(std::vector<int> world_ranks)
      : members(std::move(world_ranks)),
        calls(members.size()),
        memory(members.size()),
        offered(members.size()),
        seated(members.size()) {}

  std::vector<int> members;  // world ranks by seat
  std::vector<Call> calls;   // by seat
  std::vector<const std::byte*> memory;
  std::vector<std::shared_ptr<const void>> offered;  // what outlives the rank's own part
  std::vector<char> seated;
  std::array<int, kSteps> arrived{};
  int running = 0;                                    // ranks inside a step
  bool withdrawn = false;                             // a rank gave up
  std::string error;                                  // mismatching calls
  std::map<int, std::shared_ptr<ThreadGroup>> split;  // by color

  int seats() const { return static_cast<int>(members.size()); }
  bool stopped() const { return withdrawn || !error.empty(); }
};

// Rounds that some member has not joined yet: collectives by (-1, -1, sequence), messages by
// (from, to, sequence).
using ThreadRoundKey = std::tuple<int, int, std::int64_t>;
struct ThreadGroup {
  std::string axis;
  std::vector<int> members;  // world ranks
  std::map<ThreadRoundKey, std::shared_ptr<ThreadRound>> open;
};

// One rank's part in a round. Belongs to the rank's thread.
struct ThreadOperation {
  using Step = std::function<void()>;

  std::shared_ptr<ThreadRound> round;
  std::string axis;
  int seat = 0;
  std::vector<Step> steps;       // an empty one is passed by taking the seat
  bool read_to_the_end = false;  // peers read this rank's memory in the last step
  int uncaught = 0;              // exceptions unwinding when it began

  std::shared_ptr<const void> operands;  // kept alive until done or given up
  std::shared_ptr<const void> offered;   // goes to the round

  std::size_t step = 0;
  bool done = false;
};

class ThreadWorld {
 public:
  ThreadWorld(int ranks, const CommunicatorOptions& options);

  RankState& state(int rank) { return ranks_[index(rank)]->state; }
  const std::shared_ptr<ThreadGroup>& everybody() const { return everybody_; }
  int size() const { return static_cast<int>(ranks_.size()); }

  // Takes the operation's seat in round `key` of the group, and adds it to what the rank advances
  // while it waits. Does not block.
  void join(int rank, ThreadGroup& group, const ThreadRoundKey& key,
            const std::vector<int>& members, const Call& call, const std::byte* memory,
            const std::shared_ptr<ThreadOperation>& operation);
  // Blocks until done; throws and withdraws on mismatch, failure of a rank, end of a rank that has
  // not joined, or timeout.
  void wait(int rank, const std::shared_ptr<ThreadOperation>& operation);
  // The group of `color` in a complete split round, made by the first who asks.
  std::shared_ptr<ThreadGroup> group_of(ThreadRound& round, int color, const std::string& axis,
                                        std::vector<int> members);

  void fail(int rank, const std::string& reason) noexcept;
  // The rank's body has returned: peers that wait for it need not wait for the timeout.
  void end(int rank);
  // Tells the scheduler, if there is one, where the rank is; throws what that throws.
  void reach(int rank, CallPoint point, const Call& call, const std::string& axis) {
    if (options_.scheduler) options_.scheduler->reach(rank, point, call, axis);
  }
  RankScheduler* scheduler() const { return options_.scheduler; }  // null in production
  // The first failure, if any: rank and reason.
  std::optional<std::pair<int, std::string>> failure();
  std::string recent_calls() const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Rank {
    RankState state;
    std::condition_variable changed;
    std::atomic<std::uint64_t> signals{0};
    bool ended = false;
    std::vector<std::shared_ptr<ThreadOperation>> in_flight;
  };

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  double now() const;
  // Notes the rank's failure and withdraws what is not done.
  void give_up(int rank, const std::shared_ptr<ThreadOperation>& operation,
               const std::string& reason) noexcept;
  bool advance(int rank, ThreadOperation& operation, Lock& lock);
  bool advance_all(int rank, Lock& lock);
  static void finish(ThreadOperation& operation);
  void run_step(int rank, ThreadOperation& operation, Lock& lock);
  void arrive(ThreadRound& round, std::size_t step);
  void signal(const std::vector<int>& members);
  void block(int rank, std::uint64_t seen, double seconds, Lock& lock);
  void withdraw(int rank, const std::shared_ptr<ThreadOperation>& operation, Lock& lock);
  void wait_until_done(int rank, ThreadOperation& operation);
  std::string peer_failure() const;
  // Empty while there is reason to go on waiting.
  std::string obstacle(const ThreadOperation& operation, double waited) const;
  std::string timeout_text(const ThreadOperation& operation) const;

  const CommunicatorOptions options_;
  const int spins_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::shared_ptr<ThreadGroup> everybody_;
  std::optional<std::pair<int, std::string>> failure_;
};

}  // namespace trireme
