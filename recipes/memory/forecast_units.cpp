#include "recipes/memory/forecast_units.h"

#include <algorithm>
#include <utility>

#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr Tier kDevice = Tier::kDevice;

std::string product(const std::string& elements, std::int64_t bytes) {
  return join(bytes, " ", elements);
}

}  // namespace

PaperUnits::PaperUnits(const ForecastRank& rank, const std::vector<Use>& order, Tally& tally)
    : rank_(rank), tally_(tally), transfers_(rank, tally), states_(rank.plan.units.size()) {
  const StageOptions& stage = rank.options.stage;
  touches_ = rank.plan.touches(order, stage.plan.recompute == RecomputeMode::kSelective);
  if (!rank.policy.whole_weights) {
    GatherPlanOptions options = rank.plan.gather_options(rank.layouts);
    options.reshard = stage.reshard;
    options.prefetch = stage.overlap;
    options.max_live = stage.max_live;
    gathers_ = GatherPlan(touches_, options);
  }
  for (const Touch& touch : touches_)
    if (touch.kind == Touch::Kind::kEnd)
      for (const int unit : rank.plan.entries[static_cast<std::size_t>(touch.entry)].units)
        ++states_[static_cast<std::size_t>(unit)].left;
  for (const UnitPlan& unit : rank.plan.units) {
    const auto label = [&](MemoryKind kind, const std::string& what, std::int64_t each,
                           const char* elements) {
      return tally.label(kDevice, kind, what + unit.name, product(elements, each));
    };
    weights_.push_back(
        label(MemoryKind::kParameters, "gathered weights of ", rank.compute, "Psi_unit"));
    open_.push_back(
        label(MemoryKind::kGradients, "whole gradients of ", rank.gradients, "Psi_unit"));
    flying_.push_back(label(MemoryKind::kGradients, "whole gradients being reduced, of ",
                            rank.gradients, "Psi_unit"));
    piece_.push_back(label(MemoryKind::kGradients, "reduced shard to be added, of ", rank.gradients,
                           "Psi_unit / N"));
  }
}

void PaperUnits::home(Tier tier, MemoryKind kind, const TiledShape& shape, const std::string& name,
                      std::int64_t each, bool whole) {
  if (each == 0) return;
  const std::string formula = product(whole ? "Psi" : "Psi / N", each);
  const bool disk = tier == Tier::kDisk;
  tally_.take(tally_.label(tier, kind, name, disk ? formula + ", trailers and blocks" : formula),
              TiledStore::home_bytes(shape, tier));
  if (!disk) return;
  const int buffers = rank_.options.stage.offload.buffers;
  tally_.take(tally_.label(Tier::kHost, MemoryKind::kCommunication, name + ": buffers of the disk",
                           join(buffers, " tiles")),
              TiledStore::buffer_bytes(shape, tier, buffers));
}

void PaperUnits::take_homes() {
  const OffloadTiers& tiers = rank_.options.stage.offload;
  const TiledShape states = rank_.states_store();
  const std::int64_t state_bytes = std::ssize(states.arrays) * rank_.wide;
  home(tiers.parameters, MemoryKind::kParameters, rank_.weights_store(), "weights", rank_.compute,
       rank_.policy.whole_weights);
  home(tiers.gradients, MemoryKind::kGradients, rank_.gradients_store(), "gradients",
       rank_.gradients, rank_.policy.whole_gradients);
  if (!states.arrays.empty())
    home(tiers.optimizer, MemoryKind::kOptimizer, states, "optimizer states", state_bytes,
         rank_.policy.whole_states);
  if (rank_.options.state_copy) take_copy(states, state_bytes);
}

// What StateCopy keeps.
void PaperUnits::take_copy(const TiledShape& states, std::int64_t each) {
  home(Tier::kHost, MemoryKind::kCommunication, rank_.weights_store(),
       "copy of weights, for train.verify_every", rank_.compute, rank_.policy.whole_weights);
  if (!states.arrays.empty())
    home(Tier::kHost, MemoryKind::kCommunication, states,
         "copy of optimizer states, for train.verify_every", each, rank_.policy.whole_states);
}

void PaperUnits::touch(Touch::Kind kind, int entry) {
  check(at_ < touches_.size() && touches_[at_].kind == kind && touches_[at_].entry == entry,
        "forecast: list entry ", entry, " is touched out of order at touch ", at_, " of ",
        touches_.size());
  const std::size_t now = at_++;
  if (!rank_.policy.whole_weights) {
    if (kind == Touch::Kind::kEnter) enter(now);
    for (const int unit : gathers_.ends(now))
      tally_.give(weights_[static_cast<std::size_t>(unit)], padded(unit) * rank_.compute);
  }
  for (const int unit : rank_.plan.entries[static_cast<std::size_t>(entry)].units) {
    if (kind == Touch::Kind::kBegin) begin(unit);
    if (kind == Touch::Kind::kEnd) end(unit);
  }
}

// As Residency does.
void PaperUnits::enter(std::size_t now) {
  for (const int unit : gathers_.starts(now)) {
    tally_.take(weights_[static_cast<std::size_t>(unit)], padded(unit) * rank_.compute);
    transfers_.load_weights(unit);
  }
  for (std::size_t i = now + 1; i < touches_.size(); ++i)
    if (const std::vector<int>& coming = gathers_.starts(i); !coming.empty())
      return transfers_.read_ahead(coming.front());
}

void PaperUnits::end_pass() const {
  check(at_ == touches_.size(), "forecast: the pass ended at touch ", at_, " of ", touches_.size());
}

void PaperUnits::begin(int unit) {
  State& state = states_[static_cast<std::size_t>(unit)];
  if (!opens() || !rank_.plan.units[static_cast<std::size_t>(unit)].trainable) return;
  if (state.open++ > 0 || state.whole) return;
  state.whole = true;
  tally_.take(open_[static_cast<std::size_t>(unit)], padded(unit) * rank_.gradients);
  if (rank_.policy.whole_gradients && state.accumulated)
    transfers_.move_gradients(unit, {0, padded(unit)});
}

void PaperUnits::end(int unit) {
  State& state = states_[static_cast<std::size_t>(unit)];
  const UnitPlan& plan = rank_.plan.units[static_cast<std::size_t>(unit)];
  --state.left;
  ++state.done;
  if (!state.whole) return;
  --state.open;
  const bool micro_batch_ends = state.left == 0 || state.done % std::ssize(plan.users) == 0;
  if (state.open > 0 || !micro_batch_ends) return;
  if (!rank_.policy.whole_gradients || state.left == 0) return reduce(unit);
  state.whole = false;  // whole gradients go home until the next micro-batch
  state.accumulated = true;
  transfers_.move_gradients(unit, {0, padded(unit)});
  tally_.give(open_[static_cast<std::size_t>(unit)], padded(unit) * rank_.gradients);
}

// The turn of the reduction queue: the one before is completed first, then the open buffer goes on.
void PaperUnits::reduce(int unit) {
  const auto index = static_cast<std::size_t>(unit);
  State& state = states_[index];
  complete(unit);
  if (busy_ >= 0) complete(busy_);
  busy_ = unit;
  state.whole = false;
  state.flying = true;
  tally_.give(open_[index], padded(unit) * rank_.gradients);
  tally_.take(flying_[index], padded(unit) * rank_.gradients);
  const bool own = !rank_.policy.whole_gradients && (state.accumulated || gradients_away());
  state.piece = own ? shard(unit) * rank_.gradients : 0;
  tally_.take(piece_[index], state.piece);
  if (!rank_.options.stage.overlap) complete(unit);
}

void PaperUnits::complete(int unit) {
  const auto index = static_cast<std::size_t>(unit);
  State& state = states_[index];
  if (!state.flying) return;
  state.flying = false;
  const Range own = rank_.layouts[index].shard(rank_.shard_rank());
  const bool whole = rank_.policy.whole_gradients;  // the piece is a part of them
  if (!whole) tally_.give(flying_[index], padded(unit) * rank_.gradients);
  if (gradients_away())
    !whole&& state.accumulated ? transfers_.add_gradients(unit, own)
                               : transfers_.move_gradients(unit, own);
  if (whole) tally_.give(flying_[index], padded(unit) * rank_.gradients);
  state.accumulated = true;
  tally_.give(piece_[index], std::exchange(state.piece, 0));
}

// One flat buffer of what a descriptor sums over a group, of this rank's shard.
void PaperUnits::sums(SumGroup group) {
  struct Piece {
    int unit;
    Range part;
  };
  std::vector<Piece> pieces;
  std::int64_t elements = 0;
  for (int unit = 0; unit < static_cast<int>(states_.size()); ++unit) {
    const FlatLayout& layout = rank_.layouts[static_cast<std::size_t>(unit)];
    for (const Segment& segment : layout.segments()) {
      const Range own = intersect(segment.range, layout.shard(rank_.shard_rank()));
      if (segment.sum != group || own.empty()) continue;
      pieces.push_back({unit, own});
      elements += own.size();
    }
  }
  const int label =
      tally_.label(kDevice, MemoryKind::kCommunication, "flat buffer of sums over a group",
                   product("elements of the shard", rank_.gradients));
  tally_.take(label, elements * rank_.gradients);
  for (const Piece& piece : pieces) transfers_.move_gradients(piece.unit, piece.part);
  tally_.give(label, elements * rank_.gradients);
}

// The own shard where it is at home elsewhere.
void PaperUnits::sum_over_replicas(int unit) {
  const auto index = static_cast<std::size_t>(unit);
  if (rank_.replicas == 1 || !gradients_away() || !rank_.plan.units[index].trainable) return;
  const int label = tally_.label(kDevice, MemoryKind::kCommunication, "shard summed over replicas",
                                 product("Psi_unit / N", rank_.gradients));
  tally_.take(label, shard(unit) * rank_.gradients);
  transfers_.move_gradients(unit, rank_.layouts[index].shard(rank_.shard_rank()));
  tally_.give(label, shard(unit) * rank_.gradients);
}

void PaperUnits::step() {
  for (int unit = 0; unit < static_cast<int>(states_.size()); ++unit) {
    complete(unit);
    sum_over_replicas(unit);
  }
  sums(SumGroup::kTensor);
  const ModelOptions& model = rank_.options.model;
  if (model.family == Family::kDecoder && model.kv_heads < rank_.mesh.tensor)
    sums(SumGroup::kKvReplicas);
  if (rank_.mesh.pipeline > 1 && (rank_.first_stage() || rank_.last_stage())) sums(SumGroup::kEnds);
  transfers_.squares();
  transfers_.update();
}

}  // namespace trireme
