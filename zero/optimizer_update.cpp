// The update of a step: the same rule over the same ranges, wherever masters, moments, gradients
// and weights are at home.
#include <algorithm>

#include "zero/optimizer.h"

namespace trireme {

namespace {

std::int64_t covered(const std::vector<Segment>& segments, Range part) {
  std::int64_t elements = 0;
  for (const Segment& segment : segments) elements += intersect(segment.range, part).size();
  return elements;
}

}  // namespace

// Whole states are updated from whole gradients; shards update their weights, which are then made
// whole where they stay so.
void ZeroOptimizer::update(const OptimizerStep& step) {
  for (const State& state : states_)
    if (state.unit->policy().whole_states) state.unit->share_gradients();
  if (on_host())
    options_.store->update([&](const Tile& tile) {
      const State& state = states_[tile.part];
      const Range part{state.range.begin + tile.range.begin, state.range.begin + tile.range.end};
      update_part(state, part, tile.arrays, step);
    });
  std::vector<Pending> shared;
  for (const State& state : states_) {
    if (!state.unit->trainable()) continue;
    if (!on_host()) update_on_device(state, step);
    state.unit->weights().flush();
    if (!state.unit->policy().whole_states) shared.push_back(state.unit->share_weights());
  }
  for (Pending& pending : shared) pending.wait();
}

// In one go, or in tiles of the store that weights or gradients must be fetched from.
void ZeroOptimizer::update_on_device(const State& state, const OptimizerStep& step) {
  const std::int64_t tile = tile_of(*state.unit);
  for (std::int64_t at = state.range.begin; at < state.range.end; at += tile) {
    const Range part{at, std::min(state.range.end, at + tile)};
    std::vector<Tensor> arrays;
    for (const FlatHome& array : state.arrays) arrays.push_back(array.slice(part));
    update_part(state, part, arrays, step);
  }
}

std::int64_t ZeroOptimizer::tile_of(const Unit& unit) const {
  std::int64_t tile = std::max<std::int64_t>(1, unit.layout().padded());
  for (const FlatHome* home : {&unit.weights(), &unit.gradients()})
    if (!home->on_device()) tile = std::min(tile, home->store()->shape().tile);
  return tile;
}

// Elements `part` of a home as a tensor where the maths is: in place, or a copy.
Tensor ZeroOptimizer::operand(const FlatHome& home, Range part, bool filled) {
  if (!on_host() && home.on_device()) return home.slice(part);
  Tensor x;
  if (on_host()) {
    x = allocate_on_host(backend_.shared_ledger(), {part.size()}, home.dtype(),
                         MemoryKind::kCommunication);
    if (filled) home.fetch(part, x);
  } else {
    x = backend_.allocate({part.size()}, home.dtype(), MemoryKind::kCommunication);
    if (filled) home.load(part, x);
  }
  return x;
}

void ZeroOptimizer::give_back(const FlatHome& home, Range part, const Tensor& x) {
  if (on_host()) return home.keep(part, x);
  if (!home.on_device()) home.save(part, x);
}

// `arrays` hold elements `part` of the states, where the maths is.
void ZeroOptimizer::update_part(const State& state, Range part, std::span<const Tensor> arrays,
                                const OptimizerStep& step) {
  const Unit& unit = *state.unit;
  const auto& segments = unit.layout().segments();
  const Tensor gradient = operand(unit.gradients(), part, true);
  // A wide weight is its own master; and what no segment covers keeps its value.
  const bool read = !state.own_master || covered(segments, part) < part.size();
  const Tensor weights = operand(unit.weights(), part, read);
  for (std::size_t s = 0; s < segments.size();) {
    Range range = segments[s].range;  // neighbours with the same decay are one range
    const bool decay = segments[s].decay;
    for (++s;
         s < segments.size() && segments[s].decay == decay && segments[s].range.begin == range.end;
         ++s)
      range.end = segments[s].range.end;
    const Range own = intersect(range, part);
    if (own.empty()) continue;
    const auto piece = [&](const Tensor& x) {
      return x.elements_at(own.begin - part.begin, {own.size()});
    };
    OptimizerRange work{.master = piece(state.own_master ? arrays.front() : weights),
                        .gradient = piece(gradient),
                        .weights = state.own_master ? piece(weights) : Tensor(),
                        .decay = decay};
    for (const Tensor& moment : arrays.subspan(state.own_master ? 1 : 0))
      work.states.push_back(piece(moment));
    apply(on_host() ? *options_.host : backend_, options_.optimizer, step, work);
  }
  give_back(unit.weights(), part, weights);
}

}  // namespace trireme
