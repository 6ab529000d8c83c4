#include "zero/kept_arrays.h"

namespace trireme {

std::vector<std::string> KeptArrays::array_names() const { return {"value"}; }

FlatHome KeptArrays::array(std::size_t unit, const std::string& name) const {
  return name == "value" ? units_[unit]->weights() : FlatHome();
}

FlatHome KeptArrays::master(std::size_t) const { return {}; }

void KeptArrays::fill_initial() {
  for (std::size_t u = 0; u < units_.size(); ++u) units_[u]->fill_initial(seed_, master(u));
  flush();
}

void KeptArrays::load_values(const SectionSource& source) {
  for (std::size_t u = 0; u < units_.size(); ++u) units_[u]->load_values(source, master(u));
  flush();
}

void KeptArrays::flush() {
  for (const Unit* unit : units_) unit->weights().flush();
}

}  // namespace trireme
