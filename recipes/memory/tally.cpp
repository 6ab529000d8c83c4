#include "recipes/memory/tally.h"

#include <algorithm>

#include "framework/base/error.h"

namespace trireme {

int Tally::label(Tier tier, MemoryKind kind, const std::string& name, const std::string& formula) {
  const std::string key = join(static_cast<int>(tier), " ", static_cast<int>(kind), " ", name);
  const auto [it, fresh] = numbers_.emplace(key, static_cast<int>(labels_.size()));
  if (fresh) labels_.push_back({tier, kind, name, formula});
  return it->second;
}

void Tally::Level::add(std::int64_t bytes, std::size_t event) {
  current += bytes;
  if (current <= peak) return;
  peak = current;
  at = event;
}

void Tally::take(int label, std::int64_t bytes) { move(label, bytes); }
void Tally::give(int label, std::int64_t bytes) { move(label, -bytes); }

void Tally::move(int label, std::int64_t bytes) {
  if (bytes == 0) return;
  const Label& told = labels_[static_cast<std::size_t>(label)];
  if (with_terms_) events_.push_back({label, bytes});
  at(told.tier, told.kind).add(bytes, events_.size());
  tiers_[static_cast<std::size_t>(told.tier)].add(bytes, events_.size());
  if (told.tier != Tier::kDisk) ram_.add(bytes, events_.size());
}

template <typename Wanted>
std::vector<MemoryTerm> Tally::held(std::size_t events, const Wanted& wanted) const {
  std::vector<MemoryTerm> all;
  for (const Label& label : labels_) all.push_back({label.name, label.formula});
  for (std::size_t i = 0; i < events; ++i) {
    MemoryTerm& term = all[static_cast<std::size_t>(events_[i].label)];
    term.bytes += events_[i].bytes;
    term.count += events_[i].bytes > 0 ? 1 : -1;
  }
  std::vector<MemoryTerm> terms;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].bytes != 0 && wanted(labels_[i])) terms.push_back(std::move(all[i]));
  std::stable_sort(terms.begin(), terms.end(),
                   [](const MemoryTerm& a, const MemoryTerm& b) { return a.bytes > b.bytes; });
  return terms;
}

std::vector<MemoryTerm> Tally::terms(Tier tier, MemoryKind kind) const {
  return held(events_.size(),
              [&](const Label& label) { return label.tier == tier && label.kind == kind; });
}

std::vector<MemoryTerm> Tally::peak_terms(Tier tier, MemoryKind kind) const {
  return held(at(tier, kind).at,
              [&](const Label& label) { return label.tier == tier && label.kind == kind; });
}

std::vector<MemoryTerm> Tally::peak_terms(Tier tier) const {
  return held(tiers_[static_cast<std::size_t>(tier)].at,
              [&](const Label& label) { return label.tier == tier; });
}

}  // namespace trireme
