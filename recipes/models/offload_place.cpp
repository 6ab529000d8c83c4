#include "recipes/models/offload_place.h"

#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr int kIoThreads = 4;  // two reads ahead and two writes behind

}  // namespace

bool OffloadTiers::any() const {
  for (const Tier tier : {optimizer, gradients, parameters, activations})
    if (tier != Tier::kDevice) return true;
  return false;
}

bool OffloadTiers::on_disk() const {
  for (const Tier tier : {optimizer, gradients, parameters, activations})
    if (tier == Tier::kDisk) return true;
  return false;
}

OffloadPlace::OffloadPlace(Backend& device, Backend& host, const OffloadTiers& tiers, Files* files,
                           const ScratchOptions& folder)
    : device_(device), host_(host), tiers_(tiers) {
  if (!tiers.on_disk()) return;
  folder_ = std::make_unique<ScratchFolder>(*files, folder);
  pool_ = std::make_unique<IoPool>(kIoThreads);
}

std::unique_ptr<TiledStore> OffloadPlace::make_store(Tier tier, TiledShape shape,
                                                     const std::string& name) {
  if (tier == Tier::kDevice || shape.arrays.empty()) return nullptr;
  shape.tile = tiers_.tile;
  if (tier == Tier::kHost) return make_host_store(std::move(shape), device_.shared_ledger());
  folder_->expect_room(TiledStore::home_bytes(shape, Tier::kDisk));
  return make_disk_store(std::move(shape), device_.shared_ledger(), *folder_, *pool_,
                         {.buffers = tiers_.buffers, .name = name});
}

std::unique_ptr<ActivationStore> OffloadPlace::activations(const DiskActivations& sizes) {
  if (tiers_.activations == Tier::kHost) return activations_on_host(device_);
  return activations_on_disk(device_, *folder_, *pool_, sizes);
}

}  // namespace trireme
