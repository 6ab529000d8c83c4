#include "recipes/train/traffic_formula.h"

#include <algorithm>

namespace trireme {

namespace {

// A reduce-scatter each attempted step, an all-gather each applied one: (N - 1) / N of the
// gradients' bytes.
void add_data(const Mesh& mesh, Engine& engine, std::int64_t steps, std::int64_t applied,
              std::map<std::string, std::int64_t>& out) {
  const std::int64_t n = mesh.data().size();
  const std::int64_t bytes =
      engine.stage().elements() / n * (n - 1) * size_of(engine.options().stage.unit.gradients);
  out["data/reduce_scatter"] = steps * bytes;
  out["data/all_gather"] = applied * bytes;
}

// Rows x columns of each cut that a send of the action list crosses.
void add_pipeline(const Mesh& mesh, Engine& engine, std::int64_t steps,
                  std::map<std::string, std::int64_t>& out) {
  const EngineOptions& o = engine.options();
  const std::vector<Chunk> chunks = engine.stage().chunks();
  const std::int64_t share = o.global_batch / mesh.shape().data;
  const std::int64_t shards = o.stage.sequence_parallel ? mesh.shape().tensor : 1;
  std::int64_t elements = 0;
  for (const Action& action : engine.actions()) {
    if (!is_send(action.kind)) continue;
    const Chunk& chunk = chunks[static_cast<std::size_t>(action.chunk)];
    const Cut& cut = action.kind == Action::Kind::kSendForward ? chunk.output : chunk.input;
    const std::int64_t samples = std::min(o.micro_batch, share - action.micro * o.micro_batch);
    elements += samples * cut.rows_per_sample / shards * cut.columns;
  }
  out["pipeline/send"] = steps * elements * size_of(accumulation_type(o.stage.unit.compute));
}

}  // namespace

std::map<std::string, std::int64_t> traffic_formulas(const Mesh& mesh, Engine& engine,
                                                     std::int64_t steps, std::int64_t applied) {
  std::map<std::string, std::int64_t> out;
  add_data(mesh, engine, steps, applied, out);
  add_pipeline(mesh, engine, steps, out);
  return out;
}

}  // namespace trireme
