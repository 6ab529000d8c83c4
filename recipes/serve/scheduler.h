// Which tokens of which sequences the next pass computes.
//
// One unit: tokens a pass (the budget). First one token of each sequence that is past its prompt,
// then more of prompts that were begun, then new ones, as pages allow. A prompt longer than what is
// left of the budget is computed in chunks. Without a free page the sequence that was admitted last
// gives all of its pages back and waits before all others, to be computed again: the one that was
// admitted first always goes on (arXiv 2207.04836's continuous batching; 2309.06180's
// recomputation; 2403.02310's chunks).
//
// New ones are admitted by turns of their clients, and in order of arrival within one: a client
// stands at the end of the line when it begins to wait and after each of its turns. So the first
// that it has waiting is admitted after at most one of each client that waited before, nobody
// starves, and who asks for much waits behind himself. Who finds no room is not overtaken.
//
// A paused sequence holds nothing that others could use: it is driven out as if pages were wanted,
// and is not admitted until it is resumed.
//
// Several passes may be in flight (over stages of a pipeline), in which no sequence waits for
// another: a decoding one is planned again when its token has come back, chunks of a prompt follow
// each other without waiting, since passes do not overtake each other. So groups need no names: a
// pass takes at most its share of the sequences that decode and of the tokens that wait, so that
// the passes in flight are about equal.
//
// Several replicas have pages of their own; a pass has rows for each. A sequence goes where least
// is to be computed, its own prompt less the prefix found there, the tokens that wait there, and
// kAnswerCost for each answer that is written there. It stays, unless it is driven out.
//
// One thread. Owns the sequences and the pool. What throws std::bad_alloc leaves all as it was, or
// with fewer rows planned: no page is lost.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "recipes/serve/sequence.h"

namespace trireme {

struct SchedulerOptions {
  std::int64_t pages = 0;       // of a replica
  std::int64_t budget = 512;    // tokens a pass of a replica, at least as many as sequences
  std::int64_t sequences = 32;  // that run at a time on a replica
  std::uint64_t hash_key = 0;
  int replicas = 1, stages = 1;
};
inline constexpr std::int64_t kAnswerCost = 16;  // tokens

// Rows of one sequence in a pass. The sequence may be gone when the pass is done: its number stays.
struct PlannedRows {
  ServedSequence* sequence = nullptr;
  std::int64_t count = 0;  // tokens [first, first + count)
  bool last = false;       // its last token is among them: the next one can be chosen
  std::int64_t first = 0;
  std::uint64_t number = 0;
  int replica = 0;
  std::int64_t preemptions = 0;  // of the sequence, so far
};

class Scheduler {
 public:
  // Throws Error for sizes with which nothing could run.
  explicit Scheduler(const SchedulerOptions& options);

  // Queues a sequence; `most` tokens must fit the pages: Error with both numbers otherwise.
  ServedSequence& add(ServedSequence sequence);
  // Forgets it, and frees its pages.
  void remove(std::uint64_t number);

  // Until it is resumed it has no pages and no rows; what is in flight of it still counts.
  void pause(std::uint64_t number, bool paused);

  // The next pass; empty if nobody can go on. Pages of the rows are the sequences' own.
  std::vector<PlannedRows> plan();
  // The pass planned last was begun.
  void started(const std::vector<PlannedRows>& rows) noexcept;
  // A pass was run, the oldest one: its tokens are in the cache. Full pages are published.
  void computed(const std::vector<PlannedRows>& rows);

  // The sequence that was admitted last and runs; null if none does.
  const ServedSequence* newest() const;
  std::int64_t running() const { return std::ssize(running_); }
  std::int64_t waiting() const { return std::ssize(sequences_) - running(); }
  const PagePool& pool(int replica = 0) const { return pools_[static_cast<std::size_t>(replica)]; }
  std::int64_t running_on(int replica) const {
    return running_on_[static_cast<std::size_t>(replica)];
  }
  std::int64_t preemptions() const { return preemptions_; }
  std::int64_t prefix_queries() const { return prefix_queries_; }  // tokens
  std::int64_t prefix_hits() const { return prefix_hits_; }

 private:
  using Order = std::map<std::uint64_t, ServedSequence*>;
  struct Client {
    std::uint64_t number;
    Order waiting;  // by number; never empty
  };
  PagePool& pool_of(const ServedSequence& s) { return pools_[static_cast<std::size_t>(s.replica)]; }
  std::int64_t& running_with(const ServedSequence& s) {
    return running_on_[static_cast<std::size_t>(s.replica)];
  }
  std::int64_t& in_flight_of(int replica) {  // the pass planned last
    const auto others = static_cast<std::uint64_t>(options_.stages - 1);
    return in_flight_[static_cast<std::uint64_t>(replica) * others + passes_ % others];
  }
  std::int64_t share_of(int replica) const;
  std::int64_t waiting_tokens() const;
  std::int64_t cost(const ServedSequence& s, int replica) const;
  bool has_room(ServedSequence& s, std::int64_t tokens, bool preempts);
  void drive_out(Order::iterator it);
  void take_prefix(ServedSequence& s);
  void give_pages(ServedSequence& s);
  bool held(const ServedSequence& s) const;
  ServedSequence* candidate() const;
  std::map<std::uint64_t, Client>::iterator line_of(std::uint64_t client);
  void leave_line(const ServedSequence& s, bool served);
  bool admit(std::vector<PlannedRows>& rows);
  bool admit_on(int replica, ServedSequence& s, std::vector<PlannedRows>& rows);
  void begin(ServedSequence& s, Order& place);
  void publish(ServedSequence& s);

  SchedulerOptions options_;
  std::vector<PagePool> pools_;           // by replica
  std::vector<std::int64_t> running_on_;  // likewise
  std::vector<std::int64_t> budgets_;     // of the pass that is planned
  std::vector<std::int64_t> in_flight_;   // tokens of the last stages - 1 passes, by replica
  std::uint64_t passes_ = 0;              // planned
  std::map<std::uint64_t, std::unique_ptr<ServedSequence>> sequences_;  // by number
  std::map<std::uint64_t, Client> line_;                                // by their turns
  Order running_, preempted_;                                           // by turn of the sequences
  std::uint64_t next_turn_ = 1;  // of clients and of sequences
  std::int64_t preemptions_ = 0, prefix_queries_ = 0, prefix_hits_ = 0;
};

}  // namespace trireme
