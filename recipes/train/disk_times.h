// What a rank's stores on disk spend and move during training steps alone: evaluation and samples
// are left out, and so is the first filling of the states.
//
// Gives the stores a clock. One rank's thread.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "offload/tiled_store.h"
#include "recipes/report/run_report.h"

namespace trireme {

class DiskTimes {
 public:
  // `stores` and what the clock uses must outlive it. Stores of other tiers are left alone.
  DiskTimes(const std::vector<TiledStore*>& stores, const std::function<double()>& clock);
  // Around each training step.
  void begin_step();
  void end_step();
  // By "optimizer", "gradients", "parameters": seconds as the mean, bytes as the sum over ranks.
  // Empty if nothing lies on disk. Collective: all ranks get the same.
  std::map<std::string, DiskCell> over_ranks(Communicator& world, Backend& backend) const;

 private:
  std::vector<TiledStore*> stores_;
  std::array<StoreTimes, kMemoryKinds> spent_;  // by kind
};

}  // namespace trireme
