#include "zero/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "framework/backend/fingerprint.h"
#include "framework/backend/host_values.h"

namespace trireme {

namespace {

Range state_range(const Unit& unit) {
  return unit.policy().whole_states ? Range{0, unit.layout().padded()} : unit.own_shard();
}

bool keeps_master(const Unit& unit) {
  const DType compute = unit.weights().dtype();
  return unit.trainable() && accumulation_type(compute) != compute;
}

}  // namespace

TiledShape state_shape(std::span<Unit* const> units, const OptimizerOptions& options) {
  TiledShape shape;
  for (const Unit* unit : units) {
    const DType compute = unit->weights().dtype(), wide = accumulation_type(compute);
    shape.parts.push_back(unit->trainable() ? state_range(*unit).size() : 0);
    shape.arrays.assign(static_cast<std::size_t>(moments(options) + (wide == compute ? 0 : 1)),
                        wide);
  }
  return shape;
}

ZeroOptimizer::ZeroOptimizer(std::vector<Unit*> units, Backend& backend, const Mesh& mesh,
                             const ZeroOptions& options)
    : KeptArrays(std::move(units), options.seed),
      backend_(backend),
      mesh_(mesh),
      options_(options),
      sums_(backend.zeros({kWorldSums}, DType::kF64, MemoryKind::kWorkspace)) {
  if (!options_.host) options_.host = &backend;
  for (Unit* unit : this->units()) states_.push_back(make_state(*unit, states_.size()));
  if (options_.initial_values) fill_initial();
  if (options_.check_replicas && mesh.world().size() > 1)
    replicas_ = std::make_unique<ReplicaCheck>(mesh, backend, arrays());
}

// Weights, and what is kept beside them.
std::vector<ReplicatedArray> ZeroOptimizer::arrays() const {
  std::vector<ReplicatedArray> all;
  for (std::size_t u = 0; u < states_.size(); ++u) {
    const Unit* unit = states_[u].unit;
    if (states_[u].own_master) all.push_back({unit, "compute value", unit->weights()});
    for (const std::string& name : array_names())
      all.push_back({.unit = unit,
                     .name = name,
                     .home = array(u, name),
                     .of_frozen = name == "value",
                     .in_turns = name != "value" || states_[u].own_master});
  }
  return all;
}

// Masters and moments of all elements, or of the own shard.
ZeroOptimizer::State ZeroOptimizer::make_state(Unit& unit, std::size_t index) {
  State state{.unit = &unit, .range = state_range(unit), .own_master = keeps_master(unit)};
  const TiledShape shape = state_shape(std::span(&state.unit, 1), options_.optimizer);
  for (std::size_t a = 0; unit.trainable() && a < shape.arrays.size(); ++a)
    state.arrays.push_back(
        on_host()
            ? FlatHome::in_store({&backend_, options_.host}, *options_.store, index, a, state.range)
            : FlatHome::on_device(backend_, state.range, shape.arrays[a], MemoryKind::kOptimizer));
  return state;
}

std::vector<std::string> ZeroOptimizer::array_names() const {
  std::vector<std::string> names = {"value"};
  for (std::string& name : moment_names(options_.optimizer)) names.push_back(std::move(name));
  return names;
}

FlatHome ZeroOptimizer::array(std::size_t unit, const std::string& name) const {
  const State& state = states_[unit];
  if (name == "value") return state.own_master ? state.master() : state.unit->weights();
  const std::vector<std::string> names = moment_names(options_.optimizer);
  for (std::size_t i = 0; i < names.size() && !state.arrays.empty(); ++i)
    if (names[i] == name) return state.arrays[i + (state.own_master ? 1 : 0)];
  return {};
}

void ZeroOptimizer::restore(const Progress& progress) {
  taken_ = progress.steps_taken;
  scaler_.restore(progress.scaler);
}

void ZeroOptimizer::flush() {
  if (on_host()) options_.store->flush();
  KeptArrays::flush();
}

bool ZeroOptimizer::has_group(SumGroup group) const {
  for (const State& state : states_)
    for (const Segment& segment : state.unit->layout().segments())
      if (segment.sum == group) return true;
  return false;
}

void ZeroOptimizer::sum_group(SumGroup group, Communicator& comm) {
  if (!has_group(group)) return;
  struct Piece {
    const FlatHome* gradients;
    Range part;
  };
  std::vector<Piece> pieces;
  std::int64_t total = 0;
  for (const State& state : states_)
    for (const Segment& segment : state.unit->layout().segments()) {
      const Range own = intersect(segment.range, state.unit->own_shard());
      if (segment.sum != group || own.empty()) continue;
      pieces.push_back({&state.unit->gradients(), own});
      total += own.size();
    }
  const DType dtype = states_.front().unit->gradients().dtype();
  Tensor flat = backend_.allocate({total}, dtype, MemoryKind::kCommunication);
  std::int64_t at = 0;
  const auto each = [&](const auto& move) {
    at = 0;
    for (const Piece& piece : pieces) {
      move(piece, flat.elements_at(at, {piece.part.size()}));
      at += piece.part.size();
    }
  };
  each([](const Piece& p, const Tensor& x) { p.gradients->load(p.part, x); });
  comm.all_reduce(flat).wait();
  each([](const Piece& p, const Tensor& x) { p.gradients->save(p.part, x); });
}

// In pieces of a fixed size counted from the begin of `part`, so that the order of additions is the
// same wherever gradients are at home. `out` (2) is where they are.
void ZeroOptimizer::add_squares(const FlatHome& gradients, Range part, const Tensor& out) {
  constexpr std::int64_t kPiece = 1 << 20;
  for (std::int64_t at = part.begin; at < part.end; at += kPiece) {
    const Range piece{at, std::min(part.end, at + kPiece)};
    if (gradients.on_device()) {
      backend_.train_kernels()->sum_of_squares(gradients.slice(piece), out);
    } else {
      const Tensor staged = allocate_on_host(backend_.shared_ledger(), {piece.size()},
                                             gradients.dtype(), MemoryKind::kCommunication);
      gradients.fetch(piece, staged);
      options_.host->train_kernels()->sum_of_squares(staged, out);
    }
  }
}

// out (2) += on the device.
void ZeroOptimizer::add_all_squares(const Tensor& out) {
  bool away = false;
  for (const State& state : states_) away |= !state.unit->gradients().on_device();
  Tensor sums = out;
  if (away) {
    sums = allocate_on_host(backend_.shared_ledger(), {2}, DType::kF64, MemoryKind::kWorkspace);
    options_.host->kernels()->fill(sums, 0.0);
  }
  for (const State& state : states_)
    for (const Segment& segment : state.unit->layout().segments())
      if (segment.counts_in_norm && options_.counts_in_norm)
        add_squares(state.unit->gradients(), intersect(segment.range, state.unit->own_shard()),
                    sums);
  if (away) backend_.upload(sums.data(), out);
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
      const FlatHome& gradients = state.unit->gradients();
      Backend& there = gradients.on_device() ? backend_ : *options_.host;
      Tensor out = gradients.on_device() ? backend_.zeros({2}, DType::kF64, MemoryKind::kWorkspace)
                                         : allocate_on_host(backend_.shared_ledger(), {2},
                                                            DType::kF64, MemoryKind::kWorkspace);
      there.kernels()->fill(out, 0.0);
      add_squares(gradients, own, out);
      if (download_doubles(there, out)[0] == 0) continue;
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

  std::array<double, kWorldSums> start{};
  start[kStop] = request.wishes.stop;
  start[kSave] = request.wishes.save;
  start[kWritten] = request.wishes.written;
  upload_doubles(backend_, start, sums_);
  if (request.loss) backend_.copy(request.loss, sums_.elements_at(kLoss, {1}));
  add_all_squares(sums_.elements_at(kBad, {2}));
  if (replicas_ && compares_) replicas_->add(request.number, sums_.elements_at(kReplicasLow, {2}));
  mesh_.world().all_reduce(sums_).wait();
  const std::vector<double> sums = download_doubles(backend_, sums_);
  if (joined_fingerprint(sums[kReplicasLow], sums[kReplicasHigh]) != 0)
    replicas_->fail_naming(request.number);

  StepResult result{
      .loss = sums[kLoss],
      .grad_norm = std::sqrt(sums[kSquares]) / request.loss_scale,
      .lr = options_.schedule.at(taken_),
      .loss_scale = request.loss_scale,
      .wishes = {.stop = sums[kStop], .save = sums[kSave], .written = sums[kWritten]}};
  result.skipped = sums[kBad] > 0 || !std::isfinite(sums[kSquares]);
  result.spiked =
      !result.skipped && options_.stop_on_norm > 0 && result.grad_norm > options_.stop_on_norm;
  if (result.spiked) return result;
  scaler_.update(result.skipped);
  if (result.skipped) {
    result.bad_parameter = first_bad_parameter();
    return result;
  }
  const OptimizerStep step{
      .number = ++taken_,
      .lr = result.lr,
      .gradient_factor = clip_factor(result.grad_norm, options_.clip) / request.loss_scale};
  update(step);
  return result;
}

}  // namespace trireme
