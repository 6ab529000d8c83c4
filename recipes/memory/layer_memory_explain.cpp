#include <algorithm>

#include "recipes/memory/layer_memory.h"
#include "recipes/report/numbers.h"
#include "recipes/report/table.h"

namespace trireme {

namespace {

bool given_back(const std::vector<MemoryStep>& steps, std::size_t take) {
  return std::any_of(
      steps.begin() + static_cast<std::ptrdiff_t>(take) + 1, steps.end(),
      [&](const MemoryStep& s) { return !s.take && s.tensor == steps[take].tensor; });
}

std::string life_of(const std::vector<MemoryStep>& steps, std::size_t take) {
  if (given_back(steps, take)) return "temporary";
  return steps[take].tensor == "output" || steps[take].tensor == "input gradient" ? "handed on"
                                                                                  : "kept";
}

// Bytes of the entry's own tensors: its input belongs to the entry before.
struct Sums {
  std::int64_t most = 0, left = 0;
};

Sums sums_of(const std::vector<MemoryStep>& steps, std::int64_t before) {
  Sums sums{before, before};
  for (const MemoryStep& step : steps) {
    if (step.tensor == "input") continue;
    sums.left += step.take ? step.bytes : -step.bytes;
    sums.most = std::max(sums.most, sums.left);
  }
  return sums;
}

// Bytes of the first step of a name, 0 if there is none.
std::int64_t bytes_of(const std::vector<MemoryStep>& steps, const std::string& tensor) {
  const auto it = std::find_if(steps.begin(), steps.end(),
                               [&](const MemoryStep& s) { return s.tensor == tensor; });
  return it == steps.end() ? 0 : it->bytes;
}

std::string table_of(const std::string& title, const std::vector<MemoryStep>& steps,
                     std::int64_t before = 0) {
  std::vector<std::vector<std::string>> rows = {{title, "formula", "bytes"}};
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (steps[i].take)
      rows.push_back(
          {"  " + steps[i].tensor, steps[i].formula, grouped(steps[i].bytes), life_of(steps, i)});
  const Sums sums = sums_of(steps, before);
  if (before > 0) rows.push_back({"  in use before it", "", grouped(before)});
  rows.push_back({"  in use at most", "", grouped(sums.most)});
  rows.push_back({"  in use after it", "", grouped(sums.left)});
  return table_text(rows);
}

}  // namespace

std::string explain(const LayerMemory& memory) {
  const std::int64_t kept = sums_of(memory.forward, 0).left - bytes_of(memory.forward, "output");
  const std::int64_t gradient = bytes_of(memory.backward, "output gradient");
  return table_of("forward", memory.forward) + "\n" +
         table_of("backward", memory.backward, kept + gradient) + "\n" +
         table_of("without a tape", memory.inference);
}

}  // namespace trireme
