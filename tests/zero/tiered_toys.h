// Toy units with their optimizer at any stage, with states, gradients and weights at home on any
// legal tier, over one group of data ranks or over replicas of smaller groups.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "offload/tiled_store.h"
#include "tests/support/faulty_files.h"
#include "tests/zero/toys.h"

namespace trireme::test {

struct Place {
  int stage = 0;
  Tier optimizer = Tier::kDevice, gradients = Tier::kDevice, weights = Tier::kDevice;
  int shard_ranks = 0;  // 0: all data ranks
  std::string text() const {
    return join("stage ", stage, ", optimizer ", name_of(optimizer), ", gradients ",
                name_of(gradients), ", weights ", name_of(weights), ", shards ", shard_ranks);
  }
};

// Every stage on the device, and every legal tier of each.
inline std::vector<Place> all_places() {
  constexpr Tier kTiers[] = {Tier::kDevice, Tier::kHost, Tier::kDisk};
  std::vector<Place> all = {{.stage = 0}};
  for (int stage = 1; stage <= 3; ++stage)
    for (const Tier optimizer : kTiers)
      for (const Tier gradients : kTiers)
        for (const Tier weights : kTiers)
          if (stage == 3 || weights == Tier::kDevice)
            all.push_back({stage, optimizer, gradients, weights});
  return all;
}

class TieredToys {
 public:
  struct Toy {
    std::string name;
    std::vector<ParameterSpec> parameters;
  };

  TieredToys(const std::vector<Toy>& toys, Backend& backend, Mesh& mesh, const Place& place,
             ZeroOptions options, DType compute = DType::kF64)
      : scratch_(files(), {.folder = folder_.path(), .name = join("rank-", mesh.world().rank())}) {
    const DataGroups groups = mesh.data_groups(place.shard_ranks);
    UnitOptions unit = toy_options(compute);
    unit.policy = policy_of(place.stage);
    unit.replicas = groups.replicas;
    unit.homes.host = &backend;
    TiledShape weights{.arrays = {compute}, .tile = kTile, .kind = MemoryKind::kParameters};
    TiledShape gradients{.arrays = {unit.gradients}, .tile = kTile, .kind = MemoryKind::kGradients};
    for (const Toy& toy : toys) {
      const FlatLayout layout = layout_of(toy, groups.shards->size(), compute);
      const bool trains = toy.parameters.front().trainable;
      weights.parts.push_back(layout.shard(0).size());
      gradients.parts.push_back(!trains                       ? 0
                                : unit.policy.whole_gradients ? layout.padded()
                                                              : layout.shard(0).size());
    }
    weights_ = store(backend, place.weights, weights, "weights");
    gradients_ = store(backend, place.gradients, gradients, "gradients");
    unit.homes.weights = weights_.get();
    unit.homes.gradients = gradients_.get();
    std::vector<Unit*> units;
    for (const Toy& toy : toys) {
      unit.homes.part = units.size();
      toys_.push_back(
          std::make_unique<ToyUnit>(toy.parameters, backend, *groups.shards, unit, toy.name));
      units.push_back(&toys_.back()->unit());
    }
    TiledShape states = state_shape(units, options.optimizer);
    states.tile = kTile;
    if (!states.arrays.empty()) states_ = store(backend, place.optimizer, states, "optimizer");
    options.store = states_.get();
    options.host = &backend;
    options.counts_in_norm = !groups.replicas || groups.replicas->rank() == 0;
    optimizer_ = std::make_unique<ZeroOptimizer>(units, backend, mesh, options);
  }

  ToyUnit& operator[](std::size_t i) { return *toys_[i]; }
  ZeroOptimizer& optimizer() { return *optimizer_; }

 private:
  static constexpr std::int64_t kTile = 5;  // cuts shards anywhere

  static Files& files() {
    static const std::unique_ptr<Files> real = real_files();
    return *real;
  }
  static FlatLayout layout_of(const Toy& toy, int ranks, DType compute) {
    std::vector<const ParameterSpec*> specs;
    for (const ParameterSpec& spec : toy.parameters) specs.push_back(&spec);
    return FlatLayout(specs, ranks, size_of(compute));
  }
  std::unique_ptr<TiledStore> store(Backend& backend, Tier tier, TiledShape shape,
                                    const std::string& name) {
    if (tier == Tier::kDevice) return nullptr;
    if (tier == Tier::kHost) return make_host_store(std::move(shape), backend.shared_ledger());
    return make_disk_store(std::move(shape), backend.shared_ledger(), scratch_, pool_,
                           {.buffers = 3, .name = name});
  }

  testing::TemporaryFolder folder_;
  ScratchFolder scratch_;
  IoPool pool_{2};
  std::unique_ptr<TiledStore> weights_, gradients_, states_;
  std::vector<std::unique_ptr<ToyUnit>> toys_;
  std::unique_ptr<ZeroOptimizer> optimizer_;
};

}  // namespace trireme::test
