// Which tokens of which sequences the next pass computes.
//
// One unit: tokens a pass (the budget). First one token of each sequence that is past its prompt,
// then more of prompts that were begun, then new ones in order of arrival, as pages allow. A prompt
// longer than what is left of the budget is computed in chunks. Without a free page the newest
// sequence gives all of its pages back and waits at the head of the queue, to be computed again:
// the oldest always goes on, so nobody starves (arXiv 2207.04836's continuous batching;
// 2309.06180's recomputation; 2403.02310's chunks).
//
// One thread. Owns the sequences and the pool.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "recipes/serve/sequence.h"

namespace trireme {

struct SchedulerOptions {
  std::int64_t pages = 0;
  std::int64_t budget = 512;    // tokens a pass, at least as many as sequences
  std::int64_t sequences = 32;  // that run at a time
  std::uint64_t hash_key = 0;
};

// Rows of one sequence in a pass.
struct PlannedRows {
  ServedSequence* sequence = nullptr;
  std::int64_t count = 0;  // tokens [cached, cached + count)
  bool last = false;       // its last token is among them: the next one can be chosen
};

class Scheduler {
 public:
  // Throws Error for sizes with which nothing could run.
  explicit Scheduler(const SchedulerOptions& options);

  // Queues a sequence; `most` tokens must fit the pages: Error with both numbers otherwise.
  ServedSequence& add(ServedSequence sequence);
  // Forgets it, and frees its pages.
  void remove(std::uint64_t number);

  // The next pass; empty if nobody can go on. Pages of the rows are the sequences' own.
  std::vector<PlannedRows> plan();
  // The pass was run: its tokens are in the cache. Full pages are published.
  void computed(const std::vector<PlannedRows>& rows);

  std::int64_t running() const { return std::ssize(running_); }
  std::int64_t waiting() const { return std::ssize(waiting_); }
  const PagePool& pool() const { return pool_; }
  std::int64_t preemptions() const { return preemptions_; }
  std::int64_t prefix_queries() const { return prefix_queries_; }  // tokens
  std::int64_t prefix_hits() const { return prefix_hits_; }

 private:
  using Order = std::map<std::uint64_t, std::unique_ptr<ServedSequence>>;  // by arrival
  bool has_room(ServedSequence& s, std::int64_t tokens, bool preempts);
  void preempt(Order::iterator it);
  void take_prefix(ServedSequence& s);
  void give_pages(ServedSequence& s);
  bool admit(std::vector<PlannedRows>& rows, std::int64_t& budget);

  SchedulerOptions options_;
  PagePool pool_;
  Order waiting_, running_;
  std::int64_t preemptions_ = 0, prefix_queries_ = 0, prefix_hits_ = 0;
};

}  // namespace trireme
