#include "zero/state_copy.h"

#include "framework/base/error.h"

namespace trireme {

std::vector<KeptHome> kept_homes(const ZeroOptimizer& optimizer) {
  std::vector<KeptHome> homes;
  const auto add = [&](std::size_t unit, const std::string& array, const FlatHome& home) {
    if (home.defined() && !home.range().empty()) homes.push_back({unit, array, home});
  };
  for (std::size_t u = 0; u < optimizer.units().size(); ++u) {
    const FlatHome& weights = optimizer.units()[u]->weights();
    for (const std::string& name : optimizer.array_names()) add(u, name, optimizer.array(u, name));
    if (optimizer.array(u, "value").dtype() != weights.dtype()) add(u, "weights", weights);
  }
  return homes;
}

StateCopy::StateCopy(ZeroOptimizer& optimizer, const std::shared_ptr<MemoryLedger>& ledger)
    : optimizer_(optimizer) {
  for (const KeptHome& kept : kept_homes(optimizer)) {
    const FlatHome& home = kept.home;
    check(home.on_device() || home.store()->tier() != Tier::kDisk, "the states of ",
          optimizer.units()[kept.unit]->name(),
          " are at home on disk, where no copy of them is made: train.verify_every needs "
          "offload.optimizer and offload.parameters = none or host");
    arrays_.push_back({home, allocate_on_host(ledger, {home.range().size()}, home.dtype(),
                                              MemoryKind::kCommunication)});
  }
}

void StateCopy::take() {
  for (const Array& array : arrays_) array.home.fetch(array.home.range(), array.kept);
  progress_ = optimizer_.progress();
  taken_ = true;
}

void StateCopy::restore() {
  check(taken_, "states are to be restored, but no copy of them was taken");
  for (const Array& array : arrays_) array.home.keep(array.home.range(), array.kept);
  optimizer_.flush();
  optimizer_.restore(progress_);
}

}  // namespace trireme
