// The units of a rank on paper: what Unit, Residency and the ReductionQueue take and give back in a
// step. Internal to forecast.
#pragma once

#include <vector>

#include "recipes/memory/forecast_rank.h"
#include "recipes/memory/forecast_transfers.h"
#include "recipes/memory/tally.h"

namespace trireme {

class PaperUnits {
 public:
  PaperUnits(const ForecastRank& rank, const std::vector<Use>& order, Tally& tally);

  // Home buffers, of all tiers; they stay.
  void take_homes();
  // The next touch of the pass, which must be this one.
  void touch(Touch::Kind kind, int entry);
  void end_pass() const;
  // What the optimizer's step takes after the pass.
  void step();

 private:
  struct State {
    std::int64_t open = 0;               // backward uses now
    bool whole = false, flying = false;  // gradients gathered up, and on their way
    std::int64_t left = 0, done = 0, piece = 0;
    bool accumulated = false;
  };
  std::int64_t padded(int unit) const {
    return rank_.layouts[static_cast<std::size_t>(unit)].padded();
  }
  std::int64_t shard(int unit) const { return padded(unit) / rank_.shards; }
  bool gradients_away() const { return rank_.options.stage.offload.gradients != Tier::kDevice; }
  bool opens() const { return !rank_.policy.whole_gradients || gradients_away(); }
  void enter(std::size_t now);
  void begin(int unit);
  void end(int unit);
  void reduce(int unit);
  void complete(int unit);
  void home(Tier tier, MemoryKind kind, const TiledShape& shape, const std::string& name,
            std::int64_t each, bool whole);
  void take_copy(const TiledShape& states, std::int64_t each);
  void sums(SumGroup group);
  void sum_over_replicas(int unit);

  const ForecastRank& rank_;
  Tally& tally_;
  PaperTransfers transfers_;
  std::vector<Touch> touches_;
  GatherPlan gathers_;
  std::vector<State> states_;
  std::vector<int> weights_, open_, flying_, piece_;  // labels by unit
  std::size_t at_ = 0;
  int busy_ = -1;  // whose reduction is in flight
};

}  // namespace trireme
