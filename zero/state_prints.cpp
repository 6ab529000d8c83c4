#include "zero/state_prints.h"

#include <algorithm>

#include "framework/backend/fingerprint.h"
#include "framework/backend/host_values.h"
#include "zero/state_runs.h"

namespace trireme {

namespace {

constexpr std::int64_t kStaged = std::int64_t{1} << 18;  // elements

class Printer {
 public:
  Printer(Backend& device, Backend& host) : device_(device), host_(host) {}

  void add(const Unit& unit, const std::string& array, const FlatHome& home,
           std::vector<StatePrint>& prints) {
    const std::vector<StateRun> runs = state_runs(unit, home.range());
    if (runs.empty()) return;
    Backend& there = home.on_device() ? device_ : host_;
    const Shape shape{2 * static_cast<std::int64_t>(runs.size())};
    const Tensor sums =
        home.on_device()
            ? device_.allocate(shape, DType::kF64, MemoryKind::kWorkspace)
            : allocate_on_host(device_.shared_ledger(), shape, DType::kF64, MemoryKind::kWorkspace);
    there.kernels()->fill(sums, 0.0);
    for (std::size_t i = 0; i < runs.size(); ++i)
      add_run(home, runs[i].flat, sums.elements_at(2 * static_cast<std::int64_t>(i), {2}));
    const std::vector<double> values = download_doubles(there, sums);
    for (std::size_t i = 0; i < runs.size(); ++i)
      prints.push_back(
          {runs[i].tensor, array, joined_fingerprint(values[2 * i], values[2 * i + 1])});
  }

 private:
  void add_run(const FlatHome& home, Range flat, const Tensor& sum) {
    if (home.on_device())
      return device_.train_kernels()->fingerprint(home.slice(flat), 0, flat.begin, 1, sum);
    for (std::int64_t at = flat.begin; at < flat.end; at += kStaged) {
      const Range piece{at, std::min(flat.end, at + kStaged)};
      const Tensor staged = allocate_on_host(device_.shared_ledger(), {piece.size()}, home.dtype(),
                                             MemoryKind::kCommunication);
      home.fetch(piece, staged);
      host_.train_kernels()->fingerprint(staged, 0, piece.begin, 1, sum);
    }
  }

  Backend& device_;
  Backend& host_;
};

}  // namespace

std::vector<StatePrint> state_prints(const ZeroOptimizer& optimizer, Backend& device,
                                     Backend& host) {
  std::vector<StatePrint> prints;
  Printer printer(device, host);
  for (const KeptHome& kept : kept_homes(optimizer))
    printer.add(*optimizer.units()[kept.unit], kept.array, kept.home, prints);
  return prints;
}

std::vector<StatePrint> gradient_prints(const ZeroOptimizer& optimizer, Backend& device,
                                        Backend& host) {
  std::vector<StatePrint> prints;
  Printer printer(device, host);
  for (const Unit* unit : optimizer.units()) {
    const FlatHome& home = unit->gradients();
    const bool on_disk = !home.on_device() && home.store()->tier() == Tier::kDisk;
    if (unit->trainable() && home.defined() && !home.range().empty() && !on_disk)
      printer.add(*unit, "gradient", home, prints);
  }
  return prints;
}

}  // namespace trireme
