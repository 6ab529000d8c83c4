#include "framework/data/tokenizers/token_table.h"

#include "framework/base/error.h"
#include "framework/data/tokenizers/flat_hash.h"

namespace trireme {

TokenTable::TokenTable(std::size_t tokens) {
  std::size_t size = 8;
  while (size < 2 * (tokens + 1)) size *= 2;
  slots_.assign(size, -1);
  places_.reserve(tokens);
  texts_.reserve(tokens * 8);
}

std::string_view TokenTable::text(std::int64_t id) const {
  if (!has(id)) return {};
  const Place place = places_[static_cast<std::size_t>(id)];
  return std::string_view(texts_).substr(place.begin, place.size);
}

std::size_t TokenTable::slot_of(std::string_view wanted) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = static_cast<std::size_t>(hash_text_bytes(wanted)) & mask;
  while (slots_[at] >= 0 && text(slots_[at]) != wanted) at = (at + 1) & mask;
  return at;
}

std::int32_t TokenTable::find(std::string_view wanted) const { return slots_[slot_of(wanted)]; }

bool TokenTable::add(std::int32_t id, std::string_view added) {
  if (has(id)) return false;
  if (2 * static_cast<std::size_t>(count_ + 1) > slots_.size()) grow();
  const std::size_t slot = slot_of(added);
  if (slots_[slot] >= 0) return false;
  check(texts_.size() + added.size() < kMissing, "the texts of a vocabulary exceed 4 GiB");
  if (id >= end()) places_.resize(static_cast<std::size_t>(id) + 1);
  places_[static_cast<std::size_t>(id)] = {static_cast<std::uint32_t>(texts_.size()),
                                           static_cast<std::uint32_t>(added.size())};
  texts_ += added;
  slots_[slot] = id;
  ++count_;
  return true;
}

void TokenTable::grow() {
  slots_.assign(slots_.size() * 2, -1);
  for (std::int64_t id = 0; id < end(); ++id)
    if (has(id)) slots_[slot_of(text(id))] = static_cast<std::int32_t>(id);
}

}  // namespace trireme
