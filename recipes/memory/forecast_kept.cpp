#include "recipes/memory/forecast_kept.h"

#include <algorithm>

#include "framework/base/error.h"
#include "offload/activation_stores.h"

namespace trireme {

namespace {

// Most inputs that are kept at a time, as StageModel asks for slots.
std::int64_t most_kept(const ForecastRank& rank) {
  const std::vector<EntryPlan>& entries = rank.plan.entries;
  const auto segment = [&](int entry) {
    const bool inside = entry >= 0 && entry < static_cast<int>(entries.size());
    return inside ? entries[static_cast<std::size_t>(entry)].segment : -1;
  };
  std::int64_t kept = 0, most = 0;
  for (const Use& use : flatten(rank.actions, rank.plan.entries_per_chunk)) {
    if (!entries[static_cast<std::size_t>(use.entry)].run_again) continue;
    const int own = segment(use.entry);
    if (use.kind == Use::Kind::kForward && segment(use.entry - 1) != own)
      most = std::max(most, ++kept);
    if (use.kind == Use::Kind::kBackward && segment(use.entry + 1) != own) --kept;
  }
  return most;
}

// The largest of one rank's pieces.
std::int64_t slot_payload(const ForecastRank& rank) {
  const std::vector<LayerSpec> list = layer_list(rank.options.model);
  const StageOptions& stage = rank.options.stage;
  const bool cut = stage.plan.sequence_parallel || stage.partition_activations;
  const std::int64_t cuts = cut ? rank.mesh.tensor : 1;
  std::int64_t most = 0;
  for (const EntryPlan& entry : rank.plan.entries) {
    if (!entry.run_again || entry.layer == 0) continue;
    const Cut& input = list[entry.layer - 1].output;
    const std::int64_t elements = rank.samples.front() * input.rows_per_sample * input.columns;
    most = std::max(most, (elements + cuts - 1) / cuts * rank.wide);
  }
  return most;
}

}  // namespace

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
  const std::int64_t slots = most_kept(rank_), payload = slot_payload(rank_);
  if (slots == 0) return;
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
