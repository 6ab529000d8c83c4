// What a rank keeps where, and the means to keep it there: made once per rank, before anything is
// allocated, so that a folder that cannot be used shows before training.
#pragma once

#include <memory>
#include <string>

#include "offload/activation_stores.h"
#include "offload/tiled_store.h"

namespace trireme {

struct OffloadTiers {
  Tier optimizer = Tier::kDevice, gradients = Tier::kDevice, parameters = Tier::kDevice,
       activations = Tier::kDevice;
  std::int64_t tile = std::int64_t{1} << 17;  // elements moved or updated at a time
  int buffers = 6;                            // of a disk store, at least 3
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
  std::unique_ptr<ActivationStore> activations(const DiskActivations& sizes);

 private:
  Backend& device_;
  Backend& host_;
  OffloadTiers tiers_;
  std::unique_ptr<ScratchFolder> folder_;
  std::unique_ptr<IoPool> pool_;
};

}  // namespace trireme
