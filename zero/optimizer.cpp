#include "zero/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "framework/backend/host_values.h"

namespace trireme {

ZeroOptimizer::ZeroOptimizer(std::vector<Unit*> units, Backend& backend, const Mesh& mesh,
                             const ZeroOptions& options)
    : backend_(backend),
      mesh_(mesh),
      options_(options),
      sums_(backend.zeros({4}, DType::kF64, MemoryKind::kWorkspace)) {
  for (Unit* unit : units) states_.push_back(make_state(*unit));
}

// Masters and moments of all elements, or of the own shard.
ZeroOptimizer::State ZeroOptimizer::make_state(Unit& unit) {
  const DType compute = unit.weights().data.dtype(), wide = accumulation_type(compute);
  const Range range =
      unit.policy().whole_states ? Range{0, unit.layout().padded()} : unit.own_shard();
  const auto zeros = [&] { return backend_.zeros({range.size()}, wide, MemoryKind::kOptimizer); };
  State state{.unit = &unit, .own_master = wide != compute && unit.trainable()};
  state.master = {state.own_master ? zeros() : unit.weights().slice(range), range};
  unit.fill_initial(options_.seed, state.separate());
  for (int i = 0; i < (unit.trainable() ? moments(options_.optimizer) : 0); ++i)
    state.moments.push_back(zeros());
  return state;
}

void ZeroOptimizer::load_values(const SectionSource& source) {
  for (const State& state : states_) state.unit->load_values(source, state.separate());
}

bool ZeroOptimizer::has_group(SumGroup group) const {
  for (const State& state : states_)
    for (const Segment& segment : state.unit->layout().segments())
      if (segment.sum == group) return true;
  return false;
}

void ZeroOptimizer::sum_group(SumGroup group, Communicator& comm) {
  if (!has_group(group)) return;
  std::vector<Tensor> pieces;
  std::int64_t total = 0;
  for (const State& state : states_)
    for (const Segment& segment : state.unit->layout().segments()) {
      const Range own = intersect(segment.range, state.unit->own_shard());
      if (segment.sum != group || own.empty()) continue;
      pieces.push_back(state.unit->gradients().slice(own));
      total += own.size();
    }
  const DType dtype = states_.front().unit->gradients().data.dtype();
  Tensor flat = backend_.allocate({total}, dtype, MemoryKind::kCommunication);
  std::int64_t at = 0;
  for (const Tensor& piece : pieces) {
    backend_.copy(piece, flat.elements_at(at, piece.shape()));
    at += piece.elements();
  }
  comm.all_reduce(flat).wait();
  at = 0;
  for (const Tensor& piece : pieces) {
    backend_.copy(flat.elements_at(at, piece.shape()), piece);
    at += piece.elements();
  }
}

void ZeroOptimizer::add_squares(const Tensor& out) {
  for (const State& state : states_)
    for (const Segment& segment : state.unit->layout().segments()) {
      const Range own = intersect(segment.range, state.unit->own_shard());
      if (segment.counts_in_norm && !own.empty())
        backend_.train_kernels()->sum_of_squares(state.unit->gradients().slice(own), out);
    }
}

// Called by all ranks when a bad element was found anywhere. The lowest rank that has one tells its
// parameter's name.
std::string ZeroOptimizer::first_bad_parameter() {
  constexpr std::size_t kLength = 128;
  std::array<char, kLength> name{};
  for (const State& state : states_)
    for (const Segment& segment : state.unit->layout().segments()) {
      const Range own = intersect(segment.range, state.unit->own_shard());
      if (name[0] != 0 || own.empty()) continue;
      Tensor out = backend_.zeros({2}, DType::kF64, MemoryKind::kWorkspace);
      backend_.train_kernels()->sum_of_squares(state.unit->gradients().slice(own), out);
      if (download_doubles(backend_, out)[0] == 0) continue;
      const std::string& found =
          state.unit->parameters()[static_cast<std::size_t>(segment.parameter)]->name();
      std::strncpy(name.data(), found.c_str(), kLength - 1);
    }
  Communicator& world = mesh_.world();
  Tensor first = backend_.zeros({1}, DType::kF64, MemoryKind::kWorkspace);
  const double mine[1] = {name[0] != 0 ? -static_cast<double>(world.rank())
                                       : -static_cast<double>(world.size())};
  upload_doubles(backend_, mine, first);
  world.all_reduce(first, ReduceOp::kMax).wait();
  const int owner = static_cast<int>(-download_doubles(backend_, first)[0]);
  if (owner == world.size()) return "unknown";
  Tensor text =
      backend_.allocate({static_cast<std::int64_t>(kLength)}, DType::kU8, MemoryKind::kWorkspace);
  backend_.upload(name.data(), text);
  world.broadcast(text, owner).wait();
  backend_.download(text, name.data());
  return name.data();
}

StepResult ZeroOptimizer::step(const StepRequest& request) {
  for (const State& state : states_) state.unit->finish_reduction();
  sum_group(SumGroup::kTensor, mesh_.tensor());
  if (options_.kv_replicas) sum_group(SumGroup::kKvReplicas, *options_.kv_replicas);
  if (mesh_.ends()) sum_group(SumGroup::kEnds, *mesh_.ends());

  const double start[4] = {0, 0, request.stop ? 1.0 : 0.0, 0};
  upload_doubles(backend_, start, sums_);
  if (request.loss) backend_.copy(request.loss, sums_.elements_at(3, {1}));
  add_squares(sums_.elements_at(0, {2}));
  mesh_.world().all_reduce(sums_).wait();
  const std::vector<double> sums = download_doubles(backend_, sums_);

  StepResult result{.loss = sums[3],
                    .grad_norm = std::sqrt(sums[1]) / request.loss_scale,
                    .lr = options_.schedule.at(taken_),
                    .loss_scale = request.loss_scale,
                    .stop = sums[2] > 0};
  result.skipped = sums[0] > 0 || !std::isfinite(sums[1]);
  scaler_.update(result.skipped);
  if (result.skipped) {
    result.bad_parameter = first_bad_parameter();
    return result;
  }
  const OptimizerStep step{
      .number = ++taken_,
      .lr = result.lr,
      .gradient_factor = clip_factor(result.grad_norm, options_.clip) / request.loss_scale};
  for (const State& state : states_)
    if (state.unit->trainable()) update(state, step);
  return result;
}

// Whole states are updated from whole gradients; shards update their weights, which are then made
// whole where they stay so.
void ZeroOptimizer::update(const State& state, const OptimizerStep& step) {
  const Unit& unit = *state.unit;
  const Range own = unit.own_shard();
  if (unit.policy().whole_states)
    mesh_.data().all_gather(unit.gradients().slice(own), unit.gradients().data).wait();
  const auto& segments = unit.layout().segments();
  for (std::size_t s = 0; s < segments.size();) {
    Range range = segments[s].range;  // neighbours with the same decay are one range
    const bool decay = segments[s].decay;
    for (++s;
         s < segments.size() && segments[s].decay == decay && segments[s].range.begin == range.end;
         ++s)
      range.end = segments[s].range.end;
    const Range part = intersect(range, state.master.range);
    if (part.empty()) continue;
    const Range local{part.begin - state.master.range.begin, part.end - state.master.range.begin};
    OptimizerRange work{.master = state.master.slice(part),
                        .gradient = unit.gradients().slice(part),
                        .weights = state.own_master ? unit.weights().slice(part) : Tensor(),
                        .decay = decay};
    for (const Tensor& moment : state.moments)
      work.states.push_back(moment.elements_at(local.begin, {local.size()}));
    apply(backend_, options_.optimizer, step, work);
  }
  if (!unit.policy().whole_states && unit.policy().whole_weights)
    mesh_.data().all_gather(unit.weights().slice(own), unit.weights().data).wait();
}

}  // namespace trireme
