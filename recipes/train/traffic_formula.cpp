#include "recipes/train/traffic_formula.h"

#include <algorithm>

namespace trireme {

namespace {

// Bytes that one rank of a group sends.
class Sent {
 public:
  explicit Sent(const Communicator& group) : axis_(group.axis()), group_(group) {}

  void all_reduce(std::int64_t n, DType dtype) {
    add("all_reduce", (n - piece(n) + piece(n) * others()) * size_of(dtype));
  }
  void all_gather(std::int64_t n, DType dtype) {
    add("all_gather", piece(n) * others() * size_of(dtype));
  }
  void reduce_scatter(std::int64_t n, DType dtype) {
    add("reduce_scatter", (n - piece(n)) * size_of(dtype));
  }
  // Into `out`, `times` over.
  void put(std::int64_t times, std::map<std::string, std::int64_t>& out) const {
    for (const auto& [operation, bytes] : bytes_) out[axis_ + "/" + operation] += times * bytes;
  }

 private:
  std::int64_t others() const { return group_.size() - 1; }
  std::int64_t piece(std::int64_t n) const {
    return piece_begin(n, group_.size(), group_.rank() + 1) -
           piece_begin(n, group_.size(), group_.rank());
  }
  void add(const char* operation, std::int64_t bytes) { bytes_[operation] += bytes; }

  std::string axis_;
  const Communicator& group_;
  std::map<std::string, std::int64_t> bytes_;
};

using Formulas = std::map<std::string, std::int64_t>;

std::int64_t samples_of(const Engine& engine, const Mesh& mesh, int micro) {
  const EngineOptions& o = engine.options();
  return std::min(o.micro_batch, o.global_batch / mesh.shape().data - micro * o.micro_batch);
}

// How often a unit's gradients are reduced in a step where they are cut: once a micro-batch, after
// the last open backward use of it.
std::int64_t reductions_of(const std::vector<Touch>& touches, const std::vector<int>& users) {
  const auto count = [&](Touch::Kind kind, const Touch& touch) {
    return touch.kind == kind && std::find(users.begin(), users.end(), touch.entry) != users.end();
  };
  std::int64_t reductions = 0, open = 0, done = 0, left = 0;
  for (const Touch& touch : touches) left += count(Touch::Kind::kEnd, touch);
  for (const Touch& touch : touches) {
    open += count(Touch::Kind::kBegin, touch);
    if (!count(Touch::Kind::kEnd, touch)) continue;
    --open, --left, ++done;
    reductions += open == 0 && (left == 0 || done % std::ssize(users) == 0);
  }
  return reductions;
}

// The number of labels; per unit the reductions of its gradients, within its sharding group and
// over replicas of it; and what makes weights whole: as planned for the uses (stage 3), or once
// after an update (stages 1-2), where stage 0 gathers gradients instead.
void add_data(const Mesh& mesh, Engine& engine, std::int64_t steps, std::int64_t applied,
              Formulas& out) {
  const StageOptions& stage = engine.options().stage;
  const StagePolicy policy = policy_of(stage.zero_stage);
  StageModel& model = engine.stage();
  const std::vector<Touch> touches =
      model.plan().touches(flatten(engine.actions(), model.entries_per_chunk()),
                           stage.plan.recompute == RecomputeMode::kSelective);
  const std::vector<Unit*> units = model.units();
  Sent labels(mesh.data()), attempted(model.shards()), updated(model.shards());
  if (mesh.data().size() > 1) labels.all_reduce(1, DType::kF64);
  for (std::size_t u = 0; u < units.size(); ++u) {
    const std::int64_t n = units[u]->layout().padded();
    const bool trains = units[u]->trainable();
    const std::int64_t reductions = !trains ? 0
                                    : policy.whole_gradients
                                        ? 1
                                        : reductions_of(touches, model.plan().units[u].users);
    for (std::int64_t i = 0; i < reductions; ++i) attempted.reduce_scatter(n, stage.gradients);
    const std::int64_t gathers =
        policy.whole_weights ? 0 : model.training_plan().gathers(static_cast<int>(u));
    for (std::int64_t i = 0; i < gathers; ++i) attempted.all_gather(n, stage.compute);
    if (trains && policy.whole_weights)
      updated.all_gather(n, policy.whole_states ? stage.gradients : stage.compute);
  }
  labels.put(steps, out);
  attempted.put(steps, out);
  updated.put(applied, out);
  if (!model.replicas()) return;
  Sent replicas(*model.replicas());
  for (const Unit* unit : units)
    if (unit->trainable()) replicas.all_reduce(unit->own_shard().size(), stage.gradients);
  replicas.put(steps, out);
}

// Rows x columns of each cut that a send of the action list crosses.
void add_pipeline(const Mesh& mesh, Engine& engine, std::int64_t steps, Formulas& out) {
  const EngineOptions& o = engine.options();
  const std::vector<Chunk> chunks = engine.stage().chunks();
  const std::int64_t shards = o.stage.plan.sequence_parallel ? mesh.shape().tensor : 1;
  std::int64_t elements = 0;
  for (const Action& action : engine.actions()) {
    if (!is_send(action.kind)) continue;
    const Chunk& chunk = chunks[static_cast<std::size_t>(action.chunk)];
    const Cut& cut = action.kind == Action::Kind::kSendForward ? chunk.output : chunk.input;
    const std::int64_t rows = samples_of(engine, mesh, action.micro) * cut.rows_per_sample;
    elements += rows / shards * cut.columns;
  }
  out["pipeline/send"] = steps * elements * size_of(accumulation_type(o.stage.compute));
}

void add_move(const TensorMove& move, std::int64_t samples, const StageOptions& stage, Sent& sent) {
  const std::int64_t rows = samples * move.rows_per_sample;
  const DType compute = stage.compute, dtype = move.wide ? accumulation_type(compute) : compute;
  const bool cut = stage.plan.sequence_parallel;
  if (move.kind == TensorMove::Kind::kGatherRows) {
    if (cut) sent.all_gather(rows * move.columns, dtype);
  } else if (move.kind == TensorMove::Kind::kSum && cut) {
    sent.reduce_scatter(rows * move.columns, dtype);
  } else {
    const std::int64_t chunk = move.chunk_rows > 0 ? move.chunk_rows : rows;
    for (std::int64_t done = 0; done < rows; done += chunk)
      sent.all_reduce(std::min(chunk, rows - done) * move.columns, dtype);
  }
}

// Indices into the list of layers of this rank's entries, chunk after chunk.
std::vector<std::size_t> own_entries(const Mesh& mesh, const Engine& engine) {
  const Bounds& bounds = engine.bounds();
  std::vector<std::size_t> entries;
  for (auto part = static_cast<std::size_t>(mesh.coord().pipeline); part + 1 < bounds.size();
       part += static_cast<std::size_t>(mesh.shape().pipeline))
    for (int i = bounds[part]; i < bounds[part + 1]; ++i)
      entries.push_back(static_cast<std::size_t>(i));
  return entries;
}

// Every use of an entry, in the order of the schedule; recomputed ones run forward twice.
void add_tensor(const Mesh& mesh, Engine& engine, std::int64_t steps, Formulas& out) {
  if (mesh.tensor().size() == 1) return;
  const StageOptions& stage = engine.options().stage;
  const std::vector<std::size_t> entries = own_entries(mesh, engine);
  Sent sent(mesh.tensor());
  for (const Use& use : flatten(engine.actions(), engine.stage().entries_per_chunk())) {
    if (use.kind == Use::Kind::kBackwardWeight) continue;  // counted with its input half
    const LayerSpec& layer = engine.layers()[entries[static_cast<std::size_t>(use.entry)]];
    const std::int64_t samples = samples_of(engine, mesh, use.micro);
    const bool forward = use.kind == Use::Kind::kForward;
    if (forward || (layer.recomputable && stage.plan.recompute == RecomputeMode::kFull))
      for (const TensorMove& move : layer.moves.forward) add_move(move, samples, stage, sent);
    if (!forward)
      for (const TensorMove& move : layer.moves.backward) add_move(move, samples, stage, sent);
  }
  sent.put(steps, out);
}

// The sums that descriptors name: one flat buffer a group, of what lies in the own data shard.
void add_sums(Communicator& group, SumGroup sum, Engine& engine, std::int64_t steps,
              Formulas& out) {
  std::int64_t elements = 0;
  for (const Unit* unit : engine.stage().units())
    for (const Segment& segment : unit->layout().segments())
      if (segment.sum == sum) elements += intersect(segment.range, unit->own_shard()).size();
  Sent sent(group);
  sent.all_reduce(elements, engine.options().stage.gradients);
  sent.put(steps, out);
}

// The world collective of each step, and who has the bad element of a skipped one.
void add_world(const Mesh& mesh, std::int64_t steps, std::int64_t applied, Formulas& out) {
  Sent each(mesh.world()), skipped(mesh.world());
  each.all_reduce(kWorldSums, DType::kF64);
  skipped.all_reduce(1, DType::kF64);
  each.put(steps, out);
  skipped.put(steps - applied, out);
}

}  // namespace

std::map<std::string, std::int64_t> traffic_formulas(const Mesh& mesh, Engine& engine,
                                                     std::int64_t steps, std::int64_t applied) {
  Formulas out;
  add_data(mesh, engine, steps, applied, out);
  add_pipeline(mesh, engine, steps, out);
  add_tensor(mesh, engine, steps, out);
  add_sums(mesh.tensor(), SumGroup::kTensor, engine, steps, out);
  if (Communicator* replicas = engine.options().optimizer.kv_replicas)
    add_sums(*replicas, SumGroup::kKvReplicas, engine, steps, out);
  if (mesh.ends()) add_sums(*mesh.ends(), SumGroup::kEnds, engine, steps, out);
  add_world(mesh, steps, applied, out);
  return out;
}

}  // namespace trireme
