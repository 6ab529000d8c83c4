#include "zero/state_runs.h"

namespace trireme {

namespace {

// Elements [begin, end) of the section's rectangle in row-major order.
void add_runs(const ParameterSpec& spec, const Section& section, std::int64_t columns,
              std::int64_t first, Range part, std::vector<StateRun>& runs) {
  Rectangle pieces[3];
  const int count = rectangles_of(part.begin - first, part.end - first, columns, pieces);
  std::int64_t at = part.begin;
  for (int i = 0; i < count; ++i) {
    Rectangle global = pieces[i];
    global.row += section.global_row;
    global.column += section.global_column;
    runs.push_back({.flat = {at, at + global.elements()},
                    .tensor = section.name,
                    .logical = section.logical,
                    .at = global,
                    .trainable = spec.trainable,
                    .counts = section.counts_in_norm});
    at += global.elements();
  }
}

}  // namespace

std::vector<StateRun> state_runs(const Unit& unit, Range part) {
  std::vector<StateRun> runs;
  for (std::size_t p = 0; p < unit.parameters().size(); ++p) {
    const ParameterSpec& spec = unit.parameters()[p]->spec();
    const std::int64_t columns = local_columns(spec);
    const std::int64_t offset = unit.layout().offset(static_cast<std::int64_t>(p));
    for (const Section& section : spec.sections) {
      const std::int64_t first = offset + section.local_row * columns;
      const Range own = intersect({first, first + section.rows * columns}, part);
      if (!own.empty()) add_runs(spec, section, columns, first, own, runs);
    }
  }
  return runs;
}

}  // namespace trireme
