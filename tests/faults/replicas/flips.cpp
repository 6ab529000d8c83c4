#include "tests/faults/replicas/flips.h"

#include "zero/state_runs.h"

namespace trireme::test {

namespace {

// visit(array, run) of everything on this rank's device.
template <typename Visit>
void each_run(parity::Rank& rank, const Visit& visit) {
  for (const ReplicatedArray& array : rank.engine.optimizer().arrays()) {
    if (!array.home.defined() || !array.home.on_device()) continue;
    for (const StateRun& run : state_runs(*array.unit, array.home.range()))
      if (run.trainable || array.of_frozen) visit(array, run);
  }
}

std::int64_t columns_of(const Shape& logical) { return logical.dims() < 2 ? 1 : logical[1]; }

void change_element(Backend& backend, const FlatHome& home, std::int64_t at, Change how, int bit) {
  const Tensor x = home.slice({at, at + 1});
  std::uint64_t bits = 0;
  backend.download(x, &bits);
  bits = how == Change::kUlp ? bits + 1 : bits ^ (std::uint64_t{1} << bit);
  backend.upload(&bits, x);
}

}  // namespace

bool change(parity::Rank& rank, const Place& place, Change how, int bit) {
  std::int64_t left = place.element;
  bool done = false;
  each_run(rank, [&](const ReplicatedArray& array, const StateRun& run) {
    if (done || run.tensor != place.tensor || array.name != place.array) return;
    if (left < run.flat.size()) {
      change_element(rank.backend, array.home, run.flat.begin + left, how, bit);
      done = true;
    }
    left -= run.flat.size();
  });
  return done;
}

std::int64_t index_of(parity::Rank& rank, const Place& place) {
  std::int64_t left = place.element, index = -1;
  each_run(rank, [&](const ReplicatedArray& array, const StateRun& run) {
    if (index >= 0 || run.tensor != place.tensor || array.name != place.array) return;
    if (left < run.flat.size())
      index = (run.at.row + left / run.at.columns) * columns_of(run.logical) + run.at.column +
              left % run.at.columns;
    left -= run.flat.size();
  });
  return index;
}

bool holds(parity::Rank& rank, const std::string& tensor, const std::string& array_name,
           std::int64_t index) {
  bool found = false;
  each_run(rank, [&](const ReplicatedArray& array, const StateRun& run) {
    if (run.tensor != tensor || array.name != array_name) return;
    const std::int64_t row = index / columns_of(run.logical) - run.at.row,
                       column = index % columns_of(run.logical) - run.at.column;
    found |= row >= 0 && row < run.at.rows && column >= 0 && column < run.at.columns;
  });
  return found;
}

bool flip_padding(parity::Rank& rank) {
  for (const Unit* unit : rank.engine.stage().units()) {
    const Range padding{unit->layout().elements(), unit->layout().padded()};
    const Range own = intersect(padding, unit->weights().range());
    if (own.empty()) continue;
    change_element(rank.backend, unit->weights(), own.begin, Change::kBit, 3);
    return true;
  }
  return false;
}

std::vector<Held> held(parity::Rank& rank) {
  std::vector<Held> all;
  each_run(rank, [&](const ReplicatedArray& array, const StateRun& run) {
    if (run.flat.empty()) return;
    if (all.empty() || all.back().tensor != run.tensor || all.back().array != array.name)
      all.push_back({run.tensor, array.name, 0, static_cast<int>(8 * size_of(array.home.dtype()))});
    all.back().elements += run.flat.size();
  });
  return all;
}

}  // namespace trireme::test
