#include "framework/base/memory_ledger.h"

#include <algorithm>
#include <cstdio>

#include "framework/base/memory_error.h"

namespace trireme {

namespace {

std::size_t at(Tier tier) { return static_cast<std::size_t>(tier); }
std::size_t at(MemoryKind kind) { return static_cast<std::size_t>(kind); }

std::string in_units(std::int64_t bytes) {
  const bool small = bytes < (1 << 20);  // of tests and tiny models
  char text[32];
  std::snprintf(text, sizeof text, small ? "%.2f KiB" : "%.2f MiB",
                static_cast<double>(bytes) / (small ? 1 << 10 : 1 << 20));
  return text;
}

}  // namespace

std::string_view name_of(MemoryKind kind) {
  constexpr std::string_view kNames[] = {"parameters",    "gradients", "optimizer", "activations",
                                         "communication", "kv_cache",  "workspace"};
  return kNames[at(kind)];
}

std::string_view name_of(Tier tier) {
  constexpr std::string_view kNames[] = {"device", "host", "disk"};
  return kNames[at(tier)];
}

void MemoryLedger::set_limit(Tier tier, std::int64_t bytes) {
  std::scoped_lock lock(mutex_);
  limit_[at(tier)] = bytes;
}

std::int64_t MemoryLedger::limit(Tier tier) const {
  std::scoped_lock lock(mutex_);
  return limit_[at(tier)];
}

void MemoryLedger::add(Tier tier, MemoryKind kind, std::int64_t bytes) {
  {
    std::scoped_lock lock(mutex_);
    const std::int64_t limit = limit_[at(tier)];
    if (limit == 0 || current_[at(tier)] + bytes <= limit) {
      Entry& entry = entries_[at(tier)][at(kind)];
      entry.current += bytes;
      entry.peak = std::max(entry.peak, entry.current);
      current_[at(tier)] += bytes;
      peak_[at(tier)] = std::max(peak_[at(tier)], current_[at(tier)]);
      return;
    }
  }
  throw MemoryError(join("memory: ", in_units(bytes), " more for ", name_of(kind),
                         " would exceed the limit of ", in_units(limit(tier)), " on the ",
                         name_of(tier), " tier; in use:\n", table(tier)));
}

void MemoryLedger::remove(Tier tier, MemoryKind kind, std::int64_t bytes) noexcept {
  std::scoped_lock lock(mutex_);
  entries_[at(tier)][at(kind)].current -= bytes;
  current_[at(tier)] -= bytes;
}

void MemoryLedger::mark_resident() {
  std::scoped_lock lock(mutex_);
  for (auto& tier : entries_)
    for (Entry& entry : tier) entry.resident = entry.current;
}

void MemoryLedger::reset_peaks() {
  std::scoped_lock lock(mutex_);
  for (auto& tier : entries_)
    for (Entry& entry : tier) entry.peak = entry.current;
  peak_ = current_;
}

MemoryLedger::Entry MemoryLedger::entry(Tier tier, MemoryKind kind) const {
  std::scoped_lock lock(mutex_);
  return entries_[at(tier)][at(kind)];
}

std::int64_t MemoryLedger::current(Tier tier) const {
  std::scoped_lock lock(mutex_);
  return current_[at(tier)];
}

std::int64_t MemoryLedger::peak(Tier tier) const {
  std::scoped_lock lock(mutex_);
  return peak_[at(tier)];
}

std::string MemoryLedger::table(Tier tier) const {
  std::scoped_lock lock(mutex_);
  std::string out;
  for (int k = 0; k < kMemoryKinds; ++k) {
    const Entry& entry = entries_[at(tier)][static_cast<std::size_t>(k)];
    if (entry.peak == 0) continue;
    char line[128];
    std::snprintf(line, sizeof line, "  %-14s %16s   peak %16s\n",
                  std::string(name_of(static_cast<MemoryKind>(k))).c_str(),
                  in_units(entry.current).c_str(), in_units(entry.peak).c_str());
    out += line;
  }
  return out + "  " + "total          " + in_units(current_[at(tier)]);
}

}  // namespace trireme
