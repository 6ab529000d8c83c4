#include "recipes/memory/forecast_transfers.h"

#include <algorithm>
#include <utility>

#include "framework/base/error.h"

namespace trireme {

namespace {

// As ZeroOptimizer::add_squares cuts gradients that are not on the device.
constexpr std::int64_t kSquaredPiece = 1 << 20;

// The longest piece of `part` between the borders of tiles, which are counted from `begin`.
std::int64_t longest_piece(std::int64_t begin, Range part, std::int64_t tile) {
  if (part.empty()) return 0;
  const std::int64_t border = begin + ((part.begin - begin) / tile + 1) * tile;
  if (border >= part.end) return part.size();
  return std::max(border - part.begin, std::min(tile, part.end - border));
}

}  // namespace

PaperTransfers::PaperTransfers(const ForecastRank& rank, Tally& tally)
    : rank_(rank), tiers_(rank.options.stage.offload), tally_(tally) {
  const auto host = [&](const char* name, const char* formula) {
    return tally.label(Tier::kHost, MemoryKind::kCommunication, name, formula);
  };
  staging_ = host("staging tile of a copy", "tile");
  sums_ = host("staging tiles of a sum", "2 tiles");
  ahead_ = host("weights read ahead, of one unit", "Psi_unit / N, trailers and blocks");
  squares_ = host("gradients being squared", "1 Mi elements at most");
  operands_ = host("gradients and weights of a tile being updated", "tile");
  tiles_ = tally.label(Tier::kDevice, MemoryKind::kCommunication,
                       "gradients and weights of a tile being updated", "tile");
}

PaperTransfers::Home PaperTransfers::weights(int unit) const {
  const Range whole{0, layout(unit).padded()};
  return {tiers_.parameters, rank_.policy.whole_weights ? whole : own(unit), rank_.compute};
}

PaperTransfers::Home PaperTransfers::gradients(int unit) const {
  const Range whole{0, layout(unit).padded()};
  return {tiers_.gradients, rank_.policy.whole_gradients ? whole : own(unit), rank_.gradients};
}

void PaperTransfers::passing(int label, std::int64_t bytes) {
  tally_.take(label, bytes);
  tally_.give(label, bytes);
}

// Bytes of the longest staging tile that a copy of `part` takes.
std::int64_t PaperTransfers::staged(const Home& home, Range part) const {
  if (home.tier == Tier::kDevice) return 0;
  return longest_piece(home.range.begin, part, tiers_.tile) * home.each;
}

void PaperTransfers::load_weights(int unit) {
  passing(staging_, staged(weights(unit), own(unit)));
  if (ahead_unit_ != unit) return;
  tally_.give(ahead_, std::exchange(ahead_bytes_, 0));
  ahead_unit_ = -1;
}

void PaperTransfers::read_ahead(int unit) {
  if (tiers_.parameters != Tier::kDisk || ahead_unit_ == unit) return;
  tally_.give(ahead_, ahead_bytes_);
  TiledShape part = rank_.weights_store();
  part.parts = {own(unit).size()};
  ahead_unit_ = own(unit).empty() ? -1 : unit;
  ahead_bytes_ = TiledStore::home_bytes(part, Tier::kDisk);
  tally_.take(ahead_, ahead_bytes_);
}

void PaperTransfers::move_gradients(int unit, Range part) {
  passing(staging_, staged(gradients(unit), part));
}

void PaperTransfers::add_gradients(int unit, Range part) {
  passing(sums_, 2 * staged(gradients(unit), part));
}

// One copy of each shard counts, under hybrid sharding too.
void PaperTransfers::squares() {
  if (tiers_.gradients == Tier::kDevice || rank_.coord.data / rank_.shards > 0) return;
  std::int64_t longest = 0;
  for (int unit = 0; unit < units(); ++unit)
    for (const Segment& segment : layout(unit).segments())
      if (segment.counts_in_norm)
        longest = std::max(longest, intersect(segment.range, own(unit)).size());
  passing(squares_, std::min(longest, kSquaredPiece) * rank_.gradients);
}

void PaperTransfers::update() {
  const bool on_host = tiers_.optimizer != Tier::kDevice && !rank_.states_store().arrays.empty();
  on_host ? update_on_host() : update_on_device();
}

// Both operands of every tile are copied, wherever they are at home.
void PaperTransfers::update_on_host() {
  std::int64_t longest = 0;
  for (const std::int64_t elements : rank_.states_store().parts)
    longest = std::max(longest, std::min(elements, tiers_.tile));
  passing(operands_, longest * (rank_.gradients + rank_.compute));
}

// Tiles of what is at home elsewhere are fetched to the device, one operand after the other.
void PaperTransfers::update_on_device() {
  for (int unit = 0; unit < units(); ++unit) {
    const std::vector<Home> away = [&] {
      std::vector<Home> homes{gradients(unit), weights(unit)};
      std::erase_if(homes, [](const Home& home) { return home.tier == Tier::kDevice; });
      return homes;
    }();
    if (away.empty() || !trainable(unit)) continue;
    const Range all = own(unit);
    for (std::int64_t at = all.begin; at < all.end; at += tiers_.tile) {
      const Range part{at, std::min(all.end, at + tiers_.tile)};
      for (const Home& home : away) {
        tally_.take(tiles_, part.size() * home.each);
        passing(staging_, staged(home, part));
      }
      for (const Home& home : away) tally_.give(tiles_, part.size() * home.each);
    }
  }
}

}  // namespace trireme
