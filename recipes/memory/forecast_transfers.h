// Host memory on paper that copies to and from homes on other tiers take for a while: staging tiles
// of FlatHome, what a disk reads ahead, and the optimizer's operands. Internal to forecast.
#pragma once

#include <vector>

#include "recipes/memory/forecast_rank.h"
#include "recipes/memory/tally.h"

namespace trireme {

class PaperTransfers {
 public:
  PaperTransfers(const ForecastRank& rank, Tally& tally);

  // The own shard of weights is loaded for a gather: what was read ahead of it goes with that.
  void load_weights(int unit);
  // A disk begins to read the weights of the unit that is gathered next.
  void read_ahead(int unit);
  // Gradients `part` of a unit's buffer are loaded or saved; or a tensor is added to them.
  void move_gradients(int unit, Range part);
  void add_gradients(int unit, Range part);
  // The optimizer's step: the sum of squares, then the update of all units.
  void squares();
  void update();

 private:
  // A home of a unit: the elements it holds of the flat buffer, and bytes of one.
  struct Home {
    Tier tier;
    Range range;
    std::int64_t each;
  };
  Home weights(int unit) const;
  Home gradients(int unit) const;
  Range own(int unit) const { return layout(unit).shard(rank_.shard_rank()); }
  const FlatLayout& layout(int unit) const { return rank_.layouts[static_cast<std::size_t>(unit)]; }
  bool trainable(int unit) const {
    return rank_.plan.units[static_cast<std::size_t>(unit)].trainable;
  }
  int units() const { return static_cast<int>(rank_.layouts.size()); }
  std::int64_t staged(const Home& home, Range part) const;
  void passing(int label, std::int64_t bytes);
  void update_on_host();
  void update_on_device();

  const ForecastRank& rank_;
  const OffloadTiers& tiers_;
  Tally& tally_;
  int staging_, sums_, ahead_, squares_, operands_, tiles_;
  int ahead_unit_ = -1;  // whose weights are read ahead, or were
  std::int64_t ahead_bytes_ = 0;
};

}  // namespace trireme
