// Inputs that recomputation keeps, on paper: on the device, cut over tensor ranks, on the host or
// on disk, as the activation stores take them. Internal to forecast.
#pragma once

#include "recipes/memory/forecast_layers.h"

namespace trireme {

class PaperKept {
 public:
  PaperKept(const ForecastRank& rank, Tally& tally);

  // Files and buffers of a disk; they stay.
  void take_home();
  // The input of a segment, `bytes` of the stream, goes to its store; and comes back.
  void keep(std::int64_t bytes, PaperLayers& layers);
  void fetch(std::int64_t bytes, PaperLayers& layers);

 private:
  std::int64_t cut(std::int64_t bytes) const;

  const ForecastRank& rank_;
  Tally& tally_;
  Tier tier_;
  bool partitioned_;
  int device_, piece_, host_;
};

}  // namespace trireme
