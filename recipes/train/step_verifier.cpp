#include "recipes/train/step_verifier.h"

#include <algorithm>

#include "framework/base/error.h"
#include "recipes/train/gather.h"

namespace trireme {

namespace {

std::string rank_text(const MeshShape& shape, int rank) {
  const MeshCoord at = coord_of(shape, rank);
  return join("rank ", rank, " (data ", at.data, ", pipeline ", at.pipeline, ", tensor ", at.tensor,
              ")");
}

}  // namespace

StepVerifier::StepVerifier(const VerifiedRank& rank, const VerifierOptions& options, Say say)
    : rank_(rank),
      options_(options),
      say_(std::move(say)),
      wrong_(static_cast<std::size_t>(rank.mesh.world().size())) {
  check(options.every > 0, "train.verify_every = ", options.every, " has nothing to verify");
  check(rank.engine.state_copy() != nullptr, "a step is to be verified, but no copy is kept");
}

std::vector<StatePrint> StepVerifier::prints() {
  return state_prints(rank_.engine.optimizer(), rank_.backend, rank_.engine.host());
}

EngineStep StepVerifier::train(std::int64_t step, const Run& first, const Run& again) {
  if (!verifies(step)) {
    copied_ = false;
    return first();
  }
  ++verified_;
  const std::string rest = check_rest(step);
  StepOutcome one = attempt(first);
  take_back(step);
  StepOutcome two = attempt(again);
  const std::vector<bool> seen = any_rank({!same_results(one, two), !rest.empty()});
  if (seen[1]) tell_rest(step, rest);
  const StepOutcome stands = seen[0] ? third(step, one, two, again) : std::move(two);
  end_if_hopeless();
  copied_ = options_.every == 1;
  if (copied_) {
    good_ = stands.states;
    rank_.engine.state_copy()->take();
  }
  return stands.step;
}

// Makes the states of now the ones to start from: those of the copy where there is one, else a copy
// of them. Returns what had changed on this rank.
std::string StepVerifier::check_rest(std::int64_t step) {
  std::vector<StatePrint> now = prints();
  if (!copied_) {
    good_ = std::move(now);
    rank_.engine.state_copy()->take();
    return "";
  }
  std::string changed = first_difference(now, good_);
  if (!changed.empty()) take_back(step);
  return changed;
}

StepOutcome StepVerifier::attempt(const Run& run) {
  ZeroOptimizer& optimizer = rank_.engine.optimizer();
  optimizer.compare_copies(false);
  rank_.witness.begin_record();
  StepOutcome outcome{.step = run()};
  outcome.events = rank_.witness.end_record();
  optimizer.compare_copies(true);
  outcome.progress = optimizer.progress();
  outcome.states = prints();
  outcome.gradients = gradient_prints(optimizer, rank_.backend, rank_.engine.host());
  return outcome;
}

void StepVerifier::take_back(std::int64_t step) {
  rank_.engine.state_copy()->restore();
  const std::string changed = first_difference(prints(), good_);
  check(changed.empty(), "step ", step + 1, ": ", changed, " on ",
        rank_text(rank_.mesh.shape(), rank_.mesh.world().rank()),
        " changed in the copy on the host that train.verify_every keeps, so the step cannot be "
        "made again; go on from the last checkpoint with --resume");
}

std::vector<bool> StepVerifier::any_rank(const std::vector<bool>& mine) {
  const std::vector<double> all =
      reduce_values(rank_.mesh.world(), rank_.backend,
                    std::vector<double>(mine.begin(), mine.end()), ReduceOp::kMax);
  std::vector<bool> any;
  for (const double x : all) any.push_back(x > 0);
  return any;
}

// A rank decides for its own states, the world for all of them: two runs agree if they do so on
// every rank.
StepOutcome StepVerifier::third(std::int64_t step, const StepOutcome& one, const StepOutcome& two,
                                const Run& again) {
  take_back(step);
  StepOutcome three = attempt(again);
  const std::vector<bool> odd = any_rank({!same_results(one, three), !same_results(two, three)});
  const Verdict verdict = judge(odd[0] ? one : two, three);
  const bool agree = !odd[0] || !odd[1];
  const std::string what = join("step ", step + 1, ": ", named(verdict.ranks), " computed ",
                                verdict.tensor, " differently in two runs of the step (",
                                verdict.tensors, " arrays of tensors differ on the rank)");
  std::vector<int> ranks = verdict.ranks;
  if (!agree) {
    for (const int rank : judge(two, three).ranks)
      if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
    throw Error(join(what, ", and no two of three runs agree: the machine of ", named(ranks),
                     " is not to be trusted; go on from the last checkpoint without it"));
  }
  blame(step, ranks,
        join(what, "; recomputed: the third run agrees with the ", odd[0] ? "second" : "first",
             ", whose result stands"));
  return three;
}

// Of the ranks that are to blame, else of any, what differs first; gradients tell more than states.
StepVerifier::Verdict StepVerifier::judge(const StepOutcome& wrong, const StepOutcome& right) {
  Communicator& world = rank_.mesh.world();
  std::vector<StepDifference> all;
  for (const std::string& text :
       gather_texts(world, rank_.backend, encode(difference(wrong, right))))
    all.push_back(decode_difference(text));
  std::vector<bool> other;
  for (const StepDifference& d : all)
    other.push_back(d.communicates && sent_other(wrong, right, d.first.call));
  Verdict verdict{.ranks = culprits(all, any_rank(other)), .tensor = "the loss or the norm"};
  const auto of = [&](int rank) -> const StepDifference& {
    return all[static_cast<std::size_t>(rank)];
  };
  std::vector<std::string> names;
  for (const int rank : verdict.ranks) names.push_back(of(rank).gradient);
  for (const StepDifference& d : all) names.push_back(d.gradient);
  for (const int rank : verdict.ranks) names.push_back(of(rank).state);
  for (const StepDifference& d : all) names.push_back(d.state);
  for (auto name = names.rbegin(); name != names.rend(); ++name)
    if (!name->empty()) verdict.tensor = *name;
  for (const int rank : verdict.ranks)
    verdict.tensors = std::max(verdict.tensors, of(rank).tensors);
  return verdict;
}

void StepVerifier::tell_rest(std::int64_t step, const std::string& mine) {
  const std::vector<std::string> all = gather_texts(rank_.mesh.world(), rank_.backend, mine);
  for (int rank = 0; rank < static_cast<int>(all.size()); ++rank) {
    const std::string& changed = all[static_cast<std::size_t>(rank)];
    if (!changed.empty())
      blame(step, {rank},
            join("step ", step + 1, ": ", changed, " changed at rest on ", named({rank}),
                 " after step ", step, "; restored from the copy"));
  }
}

void StepVerifier::blame(std::int64_t step, const std::vector<int>& ranks,
                         const std::string& what) {
  ++incidents_;
  for (const int rank : ranks) wrong_[static_cast<std::size_t>(rank)].push_back(step + 1);
  if (say_) say_(what);
}

void StepVerifier::end_if_hopeless() const {
  for (int rank = 0; rank < static_cast<int>(wrong_.size()); ++rank) {
    const std::vector<std::int64_t>& steps = wrong_[static_cast<std::size_t>(rank)];
    if (std::ssize(steps) < options_.most_times) continue;
    std::string list;
    for (const std::int64_t step : steps) list += join(list.empty() ? "" : ", ", step);
    throw Error(join(named({rank}), " was wrong ", steps.size(), " times, at steps ", list,
                     ": its machine is not to be trusted; go on from the last checkpoint without "
                     "it"));
  }
}

std::string StepVerifier::named(const std::vector<int>& ranks) const {
  std::string text;
  for (const int rank : ranks)
    text += join(text.empty() ? "" : " or ", rank_text(rank_.mesh.shape(), rank));
  return text.empty() ? "no rank" : text;
}

}  // namespace trireme
