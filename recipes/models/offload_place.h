// What a rank keeps where, and the means to keep it there: made once per rank, before anything is
// allocated, so that a folder that cannot be used shows before training.
#pragma once

#include <memory>
#include <string>

#include "offload/activation_stores.h"
#include "offload/tiled_store.h"
#include "offload/weight_stream.h"

namespace trireme {

struct OffloadTiers {
  Tier optimizer = Tier::kDevice, gradients = Tier::kDevice, parameters = Tier::kDevice,
       activations = Tier::kDevice;
  std::int64_t tile = std::int64_t{1} << 17;  // elements moved or updated at a time
  int buffers = 6;                            // of a disk store, at least 3
  // Of a model that is only run: its keys and values, and its parameters, which are streamed.
  Tier kv_cache = Tier::kDevice;
  int slots = 0;  // 0: 2 from the host, 3 from disk
  // Device bytes of the units that stay; or of these and the slots together, if that is not 0.
  std::int64_t resident = 0, device_total = 0;
  bool any() const;
  bool on_disk() const;
};

class OffloadPlace {
 public:
  // `host` does the maths on what is at home there. `files` and `folder` are used if something
  // is on disk; `rank` names the rank's own folder inside.
  OffloadPlace(Backend& device, Backend& host, const OffloadTiers& tiers, Files* files,
               const ScratchOptions& folder);

  Backend& host() const { return host_; }
  // Null for the device tier, and where there is nothing to keep.
  std::unique_ptr<TiledStore> make_store(Tier tier, TiledShape shape, const std::string& name);
  // For parameters of a model that is only run; residents are chosen here. Throws Error if the
  // slots alone exceed tiers' device_total.
  std::unique_ptr<WeightStream> make_stream(WeightStreamShape shape);
  bool has_folder() const { return folder_ != nullptr; }  // for files of its own
  // Makes `stream` read these extents where they lie.
  void read_in_place(WeightStream& stream, std::vector<std::vector<FileExtent>> extents,
                     const std::vector<std::string>& paths);
  std::unique_ptr<ActivationStore> activations(const DiskActivations& sizes);

 private:
  Backend& device_;
  Backend& host_;
  OffloadTiers tiers_;
  Files* files_;
  std::unique_ptr<ScratchFolder> folder_;
  std::unique_ptr<IoPool> pool_;
};

}  // namespace trireme
