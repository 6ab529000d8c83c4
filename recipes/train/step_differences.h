// Two runs of the same step compared: what came out differently on a rank, and which rank of all is
// to blame. Pure functions.
//
// After a step every rank's states depend on every other rank, so states do not tell. What ranks
// sent and got does (framework/comm/witness_communicator.h): the first thing that differs on a rank
// is either something that it sent, though it had got the same until then, and then it computed
// wrong; or something that it got, and then another rank is to blame, unless all that was sent into
// that call was the same: then it was changed on its way, or by the rank that summed that piece.
// With nothing different between ranks, those whose states differ.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/comm/witness_communicator.h"
#include "recipes/models/engine.h"
#include "zero/state_prints.h"

namespace trireme {

// What one run of a step gave on one rank.
struct StepOutcome {
  EngineStep step;
  ZeroOptimizer::Progress progress;
  std::vector<StatePrint> states, gradients;
  std::vector<CommEvent> events;
};

// Are the results the same to the bit: loss, norm, counts, states? Gradients and events are means.
bool same_results(const StepOutcome& a, const StepOutcome& b);

// One rank's view of how two runs differ.
struct StepDifference {
  bool communicates = false;  // some event differs: `first` is the first one
  CommEvent first;
  bool states = false;  // some state differs
  // What to tell: "layers.1.mlp.up.weight (gradient)", of all that differ the first; gradients come
  // before states, since one wrong number of a gradient changes all states through the norm.
  std::string gradient, state;
  std::int64_t tensors = 0;  // arrays of tensors that differ
};
StepDifference difference(const StepOutcome& wrong, const StepOutcome& right);
// Between two lists of the same tensors; the first that differs, or "".
std::string first_difference(std::span<const StatePrint> a, std::span<const StatePrint> b);

// Did this rank send something else into that call?
bool sent_other(const StepOutcome& wrong, const StepOutcome& right, std::uint64_t call);

// `ranks`: of all ranks. other[i]: did any rank send something else into the call of rank i's first
// event? Never empty if anything differs.
std::vector<int> culprits(std::span<const StepDifference> ranks, const std::vector<bool>& other);

// For transport between ranks: a line.
std::string encode(const StepDifference& difference);
StepDifference decode_difference(const std::string& text);

}  // namespace trireme
