// R18 of the reliability table: every bit of one element of a gradient, a weight, an activation, a
// moment or a payload, on every rank of several layouts, is flipped once; a verified step must tell
// the rank and the step, and go on as if nothing had happened.
#include <gtest/gtest.h>

#include "framework/base/random.h"
#include "tests/faults/verify/faulty_ranks.h"
#include "tests/faults/verify/tiny_task.h"
#include "tests/support/fault_count.h"

namespace trireme::test {
namespace {

struct Tally {
  FaultCount count{.row = "R18"};
  std::int64_t effective = 0;
  std::int64_t missed_by_losses = 0;  // what comparing losses alone would have missed
};

// All bits of each place, on the ranks in turn.
void flip_all(const parity::Task& task, const parity::Layout& layout,
              const std::vector<std::string>& places, Tally& tally) {
  SCOPED_TRACE(parity::text_of(layout));
  Flips flips{.task = task, .layout = layout};
  const int bits = 8 * static_cast<int>(size_of(task.compute));
  const RngKey key = key_from_seed(18);
  int step = 0;
  for (const std::string& where : places)
    for (int bit = 0; bit < bits; ++bit, ++step)
      flips.faults[step] = {.where = where,
                            .bit = bit,
                            .rank = step % layout.mesh.ranks(),
                            .pick = random_word(key, static_cast<std::uint64_t>(step))};
  const std::vector<StepSeen> seen = train_with_faults(flips, step);
  tally.count.runs += step;
  std::map<std::string, int> fired;
  for (int s = 0; s < step; ++s) {
    const StepSeen& it = seen[static_cast<std::size_t>(s)];
    const Fault& fault = flips.faults[s];
    SCOPED_TRACE(fault.where + ", bit " + std::to_string(fault.bit) + ", step " +
                 std::to_string(s + 1) + ", rank " + std::to_string(fault.rank));
    tally.count.injected += it.fired;
    fired[fault.where] += it.fired;
    tally.effective += it.changed;
    tally.missed_by_losses += it.changed && !it.loss_changed;
    bool found = it.said.size() == (it.changed ? 1 : 0);
    if (it.changed && found) {
      const std::string& text = it.said[0];
      const std::string rank = "rank " + std::to_string(fault.rank) + " (data ";
      found = text.starts_with("step " + std::to_string(s + 1) + ": ") &&
              text.find(rank) != std::string::npos && text.find(" or rank ") == std::string::npos;
      if (fault.where.starts_with("rest ")) found &= text.find(it.tensor) != std::string::npos;
      if (fault.where.starts_with("adam "))
        found &= text.find(" (" + fault.where.substr(5) + ")") != std::string::npos;
      if (fault.where.ends_with(" gradient"))
        found &= text.find(" (gradient)") != std::string::npos;
    }
    EXPECT_TRUE(found) << (it.said.empty() ? "nothing was said" : it.said[0]);
    EXPECT_TRUE(it.right) << "the result that stands is not that of the quiet run";
    tally.count.lost += !found || !it.right;
  }
  for (const std::string& where : places) EXPECT_GT(fired[where], bits / 2) << where;
}

const std::vector<std::string> kOnRank = {"weight gradient", "norm gradient", "use value",
                                          "activation",      "attention",     "matmul",
                                          "adam value",      "adam exp_avg",  "adam exp_avg_sq",
                                          "rest value",      "rest exp_avg",  "rest exp_avg_sq"};

std::vector<std::string> with(std::vector<std::string> places,
                              const std::vector<std::string>& more) {
  places.insert(places.end(), more.begin(), more.end());
  return places;
}

void expect_all_found(Tally& tally, const std::string& what) {
  tally.count.what = what;
  tell(tally.count);
  EXPECT_GT(tally.effective, tally.count.injected / 2);
  // The planted mistake: a verifier that compares losses would have gone on with wrong states.
  EXPECT_GT(tally.missed_by_losses, tally.effective / 4);
}

TEST(Flips, EveryBitOfF64IsFoundOnTheRightRank) {
  const parity::Task task = tiny_task(DType::kF64);
  Tally tally;
  flip_all(task, {.micro = 4}, kOnRank, tally);
  flip_all(task, {.mesh = {.data = 2}, .micro = 2},
           with(kOnRank, {"sum", "reduce_scatter", "all_gather"}), tally);
  flip_all(task, {.mesh = {.pipeline = 2, .tensor = 2}, .micro = 2},
           {"weight gradient", "matmul", "adam exp_avg", "rest value", "sum", "all_reduce", "recv"},
           tally);
  expect_all_found(tally, "bits of f64 in compute, memory and payloads");
}

TEST(Flips, EveryBitOfF32IsFoundOnTheRightRank) {
  const parity::Task task = tiny_task(DType::kF32);
  Tally tally;
  flip_all(task, {.mesh = {.data = 2, .pipeline = 2, .tensor = 2}, .micro = 1, .zero_stage = 1},
           {"weight gradient", "use value", "activation", "adam exp_avg", "adam exp_avg_sq",
            "rest value", "sum", "all_reduce", "recv"},
           tally);
  parity::Task thirds = task;
  thirds.global_batch = 6;
  flip_all(thirds, {.mesh = {.data = 3}, .micro = 1, .zero_stage = 3},
           with(kOnRank, {"sum", "reduce_scatter", "all_gather"}), tally);
  flip_all(task,
           {.mesh = {.data = 2},
            .micro = 2,
            .zero_stage = 3,
            .offload = {.optimizer = Tier::kHost,
                        .gradients = Tier::kHost,
                        .parameters = Tier::kHost,
                        .tile = 64}},
           {"weight gradient", "activation", "rest value", "rest exp_avg", "rest exp_avg_sq"},
           tally);
  expect_all_found(tally, "bits of f32 in compute, memory and payloads");
}

}  // namespace
}  // namespace trireme::test
