#include "recipes/memory/forecast_kept.h"

#include "framework/base/error.h"
#include "offload/activation_stores.h"

namespace trireme {

PaperKept::PaperKept(const ForecastRank& rank, Tally& tally)
    : rank_(rank),
      tally_(tally),
      tier_(rank.options.stage.offload.activations),
      partitioned_(rank.options.stage.partition_activations && rank.mesh.tensor > 1),
      device_(tally.label(Tier::kDevice, MemoryKind::kActivations, "kept inputs of segments",
                          partitioned_ ? "R C w / t" : "r C w")),
      piece_(tally.label(Tier::kDevice, MemoryKind::kActivations,
                         "piece of a kept input, on its way", "R C w / t")),
      host_(tally.label(Tier::kHost, MemoryKind::kActivations, "kept inputs of segments",
                        partitioned_ ? "R C w / t" : "r C w")) {}

std::int64_t PaperKept::cut(std::int64_t bytes) const {
  if (!partitioned_) return bytes;
  const std::int64_t elements = bytes / rank_.wide;
  const int t = rank_.coord.tensor;
  return (piece_begin(elements, rank_.mesh.tensor, t + 1) -
          piece_begin(elements, rank_.mesh.tensor, t)) *
         rank_.wide;
}

void PaperKept::take_home() {
  if (tier_ != Tier::kDisk) return;
  const StagePlan& plan = rank_.plan;
  const StageOptions& stage = rank_.options.stage;
  const std::int64_t slots = plan.most_kept(flatten(rank_.actions, plan.entries_per_chunk));
  if (slots == 0) return;
  const bool cut = stage.plan.sequence_parallel || stage.partition_activations;
  const std::int64_t payload =
      plan.largest_kept(layer_list(rank_.options.model), rank_.samples.front(),
                        cut ? rank_.mesh.tensor : 1, accumulation_type(stage.compute));
  const std::int64_t slot = SlotFile::slot_bytes(payload);
  const int buffers = DiskActivations{}.buffers;
  tally_.take(tally_.label(Tier::kDisk, MemoryKind::kActivations, "kept inputs of segments",
                           "slots of r C w, trailers and blocks"),
              slots * slot);
  tally_.take(tally_.label(Tier::kHost, MemoryKind::kCommunication,
                           "kept inputs: buffers of the disk", join(buffers, " slots")),
              buffers * slot);
}

void PaperKept::keep(std::int64_t bytes, PaperLayers& layers) {
  if (tier_ == Tier::kDevice && !partitioned_) {
    layers.give_stream(bytes);
    return tally_.take(device_, bytes);
  }
  const std::int64_t own = cut(bytes);
  if (partitioned_) tally_.take(tier_ == Tier::kDevice ? device_ : piece_, own);
  if (tier_ == Tier::kHost) tally_.take(host_, own);
  if (partitioned_ && tier_ != Tier::kDevice) tally_.give(piece_, own);
  layers.give_stream(bytes);
}

void PaperKept::fetch(std::int64_t bytes, PaperLayers& layers) {
  if (tier_ == Tier::kDevice && !partitioned_) {
    tally_.give(device_, bytes);
    return layers.take_stream(bytes);
  }
  const std::int64_t own = cut(bytes);
  const bool piece = partitioned_ && tier_ != Tier::kDevice;
  if (piece) tally_.take(piece_, own);
  if (piece && tier_ == Tier::kHost) tally_.give(host_, own);
  layers.take_stream(bytes);
  if (!piece && tier_ == Tier::kHost) tally_.give(host_, own);
  if (partitioned_) tally_.give(piece ? piece_ : device_, own);
}

}  // namespace trireme
