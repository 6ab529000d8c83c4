// The model as the serving engine sees it: rows in, logits out. One implementation runs it over a
// mesh of ranks, tests have others.
//
// Over a mesh world rank 0 leads: it has the scheduler and the requests, and tells all ranks the
// rows of each pass. The others follow in serve_passes() until it ends.
#pragma once

#include <memory>
#include <span>

#include "recipes/models/engine.h"

namespace trireme {

class ModelRunner {
 public:
  virtual ~ModelRunner() = default;
  virtual std::int64_t vocab() const = 0;
  virtual std::int64_t pages() const = 0;    // of its key/value cache
  virtual std::int64_t context() const = 0;  // most tokens of a text
  virtual int groups() const { return 1; }   // micro-batches that keep it busy
  // Logits of the wanted rows of each micro-batch, (rows, vocab()); there until the next pass.
  virtual std::span<const Logits> run(std::span<const InferenceRows> micros) = 0;
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

// On world rank 0. Allocates its cache, and tells the others of its end when it dies.
std::unique_ptr<ModelRunner> lead_passes(const RankParts& rank, std::int64_t pages,
                                         std::int64_t context);
// On the other ranks; returns when the leader's runner died.
void follow_passes(const RankParts& rank, std::int64_t pages);

}  // namespace trireme
