// The model as the serving engine sees it: rows in, what they say out. One implementation runs it
// over a mesh of ranks, tests have others.
//
// Over a mesh world rank 0 leads: it has the scheduler and the requests, and begins every pass. The
// others follow in follow_passes() until it ends. Each data rank is a replica with a cache of its
// own: a pass has rows for each, which share nothing, so that what a request says does not depend
// on where it runs. Where weights are cut over data ranks and gathered by all of them, a replica
// that has no rows runs one of its own into a page that nobody reads, lest the others wait for it.
//
// Over p stages up to p passes are in flight: stage s runs pass i while stage 0 runs pass i + s.
// Passes do not overtake each other, neither as a whole nor at any stage. What they say goes from
// the last stage to the leader, who chooses: one message of a few pairs for each row (or of its
// logits, where they are needed), and the chosen ids come to the first stage with the next pass. A
// last stage that chose would have to know requests, penalties and ends, and its ids would take the
// same way to the leader, who streams them.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "recipes/models/engine.h"

namespace trireme {

struct PassAnswer {
  Logits logits;               // (rows, vocab()) of InferenceRows::logit_rows
  std::vector<TopLogits> top;  // of InferenceRows::top
};

class ModelRunner {
 public:
  virtual ~ModelRunner() = default;
  virtual std::int64_t vocab() const = 0;
  virtual std::int64_t pages() const = 0;    // of a replica's key/value cache
  virtual std::int64_t context() const = 0;  // most tokens of a text
  virtual int replicas() const { return 1; }
  virtual int stages() const { return 1; }  // passes in flight that keep it busy

  // Begins a pass: rows of each replica; without ids it has none. At most stages() passes may be in
  // flight. The rows are done with when it returns.
  virtual void start(std::span<const InferenceRows> passes) = 0;
  // Waits for the oldest one in flight: answers of each replica, there until the next call.
  virtual std::span<PassAnswer> finish() = 0;
  // f(begin, end) on parts of [0, n) by the threads that compute passes, which have nothing to do
  // between them. f must not throw.
  virtual void share(std::int64_t n,
                     const std::function<void(std::int64_t begin, std::int64_t end)>& f) {
    f(0, n);
  }
  // Whether it goes on after a pass that ended with std::bad_alloc or "out of memory". Several
  // ranks do not: some may have passed where others have not.
  virtual bool survives() const { return false; }
  // What its weights' stream has done so far; without one nothing. Thread of run.
  virtual StreamTimes streamed() const { return {}; }
  // Called about every second without a pass, lest ranks that wait take it for a death.
  virtual void idle() {}
};

struct RankParts {
  Engine& engine;
  Mesh& mesh;
  Backend& backend;
};

// Pages whose keys and values take at most `bytes` on each rank; the same on all, which call this.
std::int64_t pages_within(const RankParts& rank, std::int64_t bytes);

// On world rank 0. Allocates its cache, and tells the others of its end when it dies. Throws Error
// for several chunks a stage (pipeline.chunks): their passes would meet each other.
std::unique_ptr<ModelRunner> lead_passes(const RankParts& rank, std::int64_t pages,
                                         std::int64_t context);
// On the other ranks; returns when the leader's runner died.
void follow_passes(const RankParts& rank, std::int64_t pages);

}  // namespace trireme
