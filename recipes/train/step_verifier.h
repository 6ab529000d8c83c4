// train.verify_every = n: every n-th attempted step is computed twice from the same states, and all
// bits are compared, since memory and processors fail in silence (Llama 3 and Gemini report such
// failures, arXiv 2407.21783; recomputing a step to find them: 2604.00726). The same layout gives
// the same bits, so any difference is a fault, without thresholds.
//
//   copy the states; run; restore; run again; compare, in one world collective.
//   different: restore, run a third time; what two of three runs agree on stands, and the run goes
//   on with it, as if nothing had happened. No two agree: Error.
//
// With n = 1 the states are also known to be good from the end of one step to the begin of the next
// one: what changed in between, at rest, is put right from the copy. The copy is itself checked, by
// fingerprints, whenever it is restored. What happens in a step that is not verified is not seen.
// Copies that ranks have of the same parameters (train.check_replicas) are compared in the steps
// that are not verified.
//
// Whatever is found is told with step, rank and tensor. A rank that was wrong three times (since
// this start) ends the run with an Error that names it. A verified step costs two steps; the copy
// costs StateCopy's bytes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "recipes/train/step_differences.h"

namespace trireme {

// Of one rank. The witness is the mesh's world; the engine keeps a StateCopy.
struct VerifiedRank {
  Engine& engine;
  Mesh& mesh;
  Backend& backend;
  WitnessCommunicator& witness;
};

struct VerifierOptions {
  std::int64_t every = 1;       // train.verify_every, above 0
  std::int64_t most_times = 3;  // that a rank may be wrong: then the run ends
};

class StepVerifier {
 public:
  using Run = std::function<EngineStep()>;
  // Told on all ranks alike.
  using Say = std::function<void(const std::string&)>;

  // What `rank` names must outlive it.
  StepVerifier(const VerifiedRank& rank, const VerifierOptions& options, Say say);

  bool verifies(std::int64_t step) const { return (step + 1) % options_.every == 0; }
  // Attempt `step`, from 0. `first` and `again` both run it; `first` is called once, also when the
  // step is not verified, and may keep books. Returns the result that stands. Collective over the
  // world.
  EngineStep train(std::int64_t step, const Run& first, const Run& again);

  std::int64_t verified() const { return verified_; }    // steps
  std::int64_t incidents() const { return incidents_; }  // times that something was wrong

 private:
  struct Verdict {
    std::vector<int> ranks;
    std::string tensor;  // "layers.1.mlp.up.weight (gradient)"
    std::int64_t tensors = 0;
  };
  std::string check_rest(std::int64_t step);
  StepOutcome attempt(const Run& run);
  void take_back(std::int64_t step);
  StepOutcome third(std::int64_t step, const StepOutcome& one, const StepOutcome& two,
                    const Run& again);
  Verdict judge(const StepOutcome& wrong, const StepOutcome& right);
  std::vector<bool> any_rank(const std::vector<bool>& mine);
  void tell_rest(std::int64_t step, const std::string& mine);
  void blame(std::int64_t step, const std::vector<int>& ranks, const std::string& what);
  void end_if_hopeless() const;
  std::string named(const std::vector<int>& ranks) const;
  std::vector<StatePrint> prints();

  VerifiedRank rank_;
  VerifierOptions options_;
  Say say_;
  std::vector<StatePrint> good_;                  // of the states in the copy
  bool copied_ = false;                           // are those the states of now?
  std::vector<std::vector<std::int64_t>> wrong_;  // steps from 1, by rank
  std::int64_t verified_ = 0, incidents_ = 0;
};

}  // namespace trireme
