// zero.max_live_parameters holds in a run: what is gathered at any moment, as the ledger counts it,
// is within the bound, also at the smallest one that a schedule allows.
#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "recipes/memory/forecast_rank.h"
#include "tests/parity/train_layout.h"

namespace trireme {
namespace {

using namespace parity;

// Elements live at the most in a run of rank 0, from its first gather on.
std::int64_t gathered(const Task& task, const Layout& layout) {
  std::int64_t most = 0;
  run_layout(task, layout, [&](Rank& rank) {
    MemoryLedger& ledger = rank.backend.ledger();
    ledger.reset_peaks();
    for (int step = 0; step < 2; ++step)
      rank.engine.train(step, random_samples(task.model, task.seed));
    if (!rank.first()) return;
    const MemoryLedger::Entry entry = ledger.entry(Tier::kDevice, MemoryKind::kParameters);
    most = (entry.peak - entry.current) / size_of(task.compute);
  });
  return most;
}

// The bound that uses and bridged gaps alone reach: the smallest legal one.
std::int64_t smallest_bound(const Task& task, const Layout& layout) {
  std::int64_t most = 0;
  run_layout(task, layout, [&](Rank& rank) {
    if (!rank.first()) return;
    const ForecastRank plan(rank.engine.options(), rank.mesh.shape(), rank.mesh.coord());
    const std::vector<Use> order = flatten(plan.actions, plan.plan.entries_per_chunk);
    GatherPlanOptions options = plan.plan.gather_options(plan.layouts);
    options.reshard = layout.reshard;
    options.prefetch = false;
    most =
        GatherPlan(plan.plan.touches(order, layout.recompute == RecomputeMode::kSelective), options)
            .peak_live();
  });
  return most;
}

TEST(LiveParameters, StayWithinTheSmallestBound) {
  const Task task{.model = tiny_gpt2(), .compute = DType::kBF16};
  for (const RecomputeMode recompute : {RecomputeMode::kNone, RecomputeMode::kFull})
    for (const Reshard reshard : {Reshard::kForward, Reshard::kBackward, Reshard::kStep}) {
      Layout layout{.mesh = {2, 1, 1},
                    .micro = 2,
                    .recompute = recompute,
                    .zero_stage = 3,
                    .reshard = reshard};
      const std::int64_t least = smallest_bound(task, layout);
      const std::int64_t free = gathered(task, layout);
      EXPECT_GE(free, least);
      layout.max_live = least;
      SCOPED_TRACE(text_of(layout));
      EXPECT_EQ(gathered(task, layout), least) << "reached by uses, not exceeded by prefetches";
      layout.max_live = least - 1;
      EXPECT_THROW(gathered(task, layout), Error);
      layout.max_live = free - 1;  // some prefetch is left out, where there was one
      if (free > least) {
        EXPECT_LT(gathered(task, layout), free);
      }
    }
}

}  // namespace
}  // namespace trireme
