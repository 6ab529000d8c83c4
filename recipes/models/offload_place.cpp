#include "recipes/models/offload_place.h"

#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr int kIoThreads = 4;      // two reads ahead and two writes behind
constexpr int kStreamThreads = 3;  // requests under way to a disk that weights are streamed from

}  // namespace

bool OffloadTiers::any() const {
  for (const Tier tier : {optimizer, gradients, parameters, activations, kv_cache})
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
    : device_(device), host_(host), tiers_(tiers), files_(files) {
  if (!tiers.on_disk() || folder.folder.empty()) return;
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

std::unique_ptr<WeightStream> OffloadPlace::make_stream(WeightStreamShape shape) {
  const bool disk = tiers_.parameters == Tier::kDisk;
  shape.home = tiers_.parameters;
  shape.slots = tiers_.slots > 0 ? tiers_.slots : disk ? 3 : 2;
  if (tiers_.device_total == 0) {
    choose_residents(shape, tiers_.resident);
  } else if (!choose_residents_within(shape, tiers_.device_total)) {
    fail("the weights do not fit: ", shape.slots, " slots of the largest unit take ",
         shape.slots_bytes(), " bytes of the device, but there are ", tiers_.device_total,
         " for weights; use offload.slots = 2, or more tensor or pipeline ranks, which cut units ",
         "and lists of them");
  }
  const auto make = [this, disk](const WeightStreamShape& all, IoPool& pool) {
    const std::vector<std::int64_t> sizes = all.source_bytes();
    if (!disk) return parts_in_memory(sizes, device_.shared_ledger(), pool);
    check(folder_ != nullptr,
          "offload.parameters = disk: weights that are not read where they lie are copied; give ",
          "offload.folder a folder for that");
    return parts_in_copy(sizes, device_.shared_ledger(), *folder_, pool);
  };
  return std::make_unique<WeightStream>(device_, std::move(shape), disk ? kStreamThreads : 1, make);
}

void OffloadPlace::read_in_place(WeightStream& stream, std::vector<std::vector<FileExtent>> extents,
                                 const std::vector<std::string>& paths) {
  std::vector<std::int64_t> sizes;
  for (const StreamedPart& part : stream.streamed().parts)
    sizes.push_back(part.own.size() * size_of(stream.streamed().dtype));
  stream.read_in_place(parts_in_files(sizes, std::move(extents), paths, *files_,
                                      device_.shared_ledger(), stream.pool()));
}

std::unique_ptr<ActivationStore> OffloadPlace::activations(const DiskActivations& sizes) {
  if (tiers_.activations == Tier::kHost) return activations_on_host(device_);
  return activations_on_disk(device_, *folder_, *pool_, sizes);
}

}  // namespace trireme
