// A ledger on paper: what is taken and given back in a step that nobody runs, with a name for every
// byte, so that a peak can be told as a sum of terms.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "framework/base/memory_ledger.h"

namespace trireme {

// Bytes of one name at one moment.
struct MemoryTerm {
  std::string name;     // "block: activation output"
  std::string formula;  // of one of them: "R F c"; may be empty
  std::int64_t count = 0;
  std::int64_t bytes = 0;  // of all of them
};

class Tally {
 public:
  // Without terms: levels and peaks only, which is faster.
  explicit Tally(bool with_terms = true) : with_terms_(with_terms) {}
  // The number of a name; the formula is the first one told.
  int label(Tier tier, MemoryKind kind, const std::string& name, const std::string& formula);
  void take(int label, std::int64_t bytes);
  void give(int label, std::int64_t bytes);

  std::int64_t current(Tier tier, MemoryKind kind) const { return at(tier, kind).current; }
  std::int64_t peak(Tier tier, MemoryKind kind) const { return at(tier, kind).peak; }
  std::int64_t peak(Tier tier) const { return tiers_[static_cast<std::size_t>(tier)].peak; }
  std::int64_t peak_of_ram() const { return ram_.peak; }  // device and host together

  // What is held now, and what was held at a peak (its first moment), largest first.
  std::vector<MemoryTerm> terms(Tier tier, MemoryKind kind) const;
  std::vector<MemoryTerm> peak_terms(Tier tier, MemoryKind kind) const;
  std::vector<MemoryTerm> peak_terms(Tier tier) const;

 private:
  struct Label {
    Tier tier;
    MemoryKind kind;
    std::string name, formula;
  };
  struct Event {
    int label;
    std::int64_t bytes;  // below 0: given back
  };
  struct Level {
    std::int64_t current = 0, peak = 0;
    std::size_t at = 0;  // events up to the peak
    void add(std::int64_t bytes, std::size_t event);
  };
  Level& at(Tier tier, MemoryKind kind) {
    return kinds_[static_cast<std::size_t>(tier)][static_cast<std::size_t>(kind)];
  }
  const Level& at(Tier tier, MemoryKind kind) const {
    return kinds_[static_cast<std::size_t>(tier)][static_cast<std::size_t>(kind)];
  }
  void move(int label, std::int64_t bytes);
  template <typename Wanted>
  std::vector<MemoryTerm> held(std::size_t events, const Wanted& wanted) const;

  bool with_terms_;
  std::vector<Label> labels_;
  std::map<std::string, int> numbers_;
  std::vector<Event> events_;
  std::array<std::array<Level, kMemoryKinds>, kTiers> kinds_{};
  std::array<Level, kTiers> tiers_{};
  Level ram_;
};

}  // namespace trireme
