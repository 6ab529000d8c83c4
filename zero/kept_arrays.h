// What a rank keeps of its units, by name: the weights alone where a model is only run; masters and
// moments besides where it is trained (ZeroOptimizer). What model folders and checkpoints are
// loaded into, and saved from.
//
// "value" is the master, or the weights where those are wide or not trained; then the moments of
// what is trained. One rank's thread, between passes.
#pragma once

#include <string>
#include <vector>

#include "zero/unit.h"

namespace trireme {

class KeptArrays {
 public:
  // `units` must outlive it. `seed` is that of fill_initial().
  KeptArrays(std::vector<Unit*> units, std::uint64_t seed)
      : units_(std::move(units)), seed_(seed) {}
  virtual ~KeptArrays() = default;
  KeptArrays(const KeptArrays&) = delete;
  KeptArrays& operator=(const KeptArrays&) = delete;

  const std::vector<Unit*>& units() const { return units_; }
  // Of all units: {"value"} and the names of moments.
  virtual std::vector<std::string> array_names() const;
  // Undefined where nothing of that name is kept.
  virtual FlatHome array(std::size_t unit, const std::string& name) const;

  // Initial values, by the seed.
  void fill_initial();
  // Replaces the weights of all units, and their masters, which keep what narrow weights round off.
  void load_values(const SectionSource& source);
  virtual void flush();  // after arrays were written

 protected:
  // Of that unit; undefined if its weights are what is kept.
  virtual FlatHome master(std::size_t unit) const;
  std::uint64_t seed() const { return seed_; }

 private:
  std::vector<Unit*> units_;
  std::uint64_t seed_;
};

}  // namespace trireme
