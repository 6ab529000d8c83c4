#include "zero/unit.h"

#include <algorithm>
#include <span>
#include <utility>

#include "framework/backend/infer_kernels.h"
#include "framework/base/error.h"

namespace trireme {

namespace {

std::vector<const ParameterSpec*> specs_of(const std::vector<Parameter*>& parameters) {
  std::vector<const ParameterSpec*> specs;
  for (const Parameter* p : parameters) specs.push_back(&p->spec());
  return specs;
}

}  // namespace

FlatLayout layout_of(const std::vector<Parameter*>& parameters, int ranks, DType compute,
                     bool bytes) {
  if (!bytes) return {specs_of(parameters), ranks, size_of(compute)};
  std::vector<std::int64_t> sizes;
  for (const Parameter* p : parameters) sizes.push_back(p->bytes(compute));
  return FlatLayout::of_bytes(sizes, ranks);
}

void ReductionQueue::enter(Unit& unit) {
  if (busy_) busy_->complete_reduction();
  busy_ = &unit;
}

Unit::Unit(std::string name, std::vector<Parameter*> parameters, Backend& backend,
           Communicator& data, const UnitOptions& options)
    : name_(std::move(name)),
      parameters_(std::move(parameters)),
      backend_(backend),
      data_(data),
      options_(options),
      policy_(options.policy),
      layout_(layout_of(parameters_, data.size(), options.compute, options.bytes)),
      trainable_(std::any_of(parameters_.begin(), parameters_.end(),
                             [](const Parameter* p) { return p->spec().trainable; })) {
  const Range whole{0, layout_.padded()};
  TiledStore* const store = options.homes.stream ? options.homes.stream : options.homes.weights;
  weights_ = make_home(store, policy_.whole_weights ? whole : own_shard(),
                       options.bytes ? DType::kU8 : options.compute, MemoryKind::kParameters);
  const Range home = policy_.whole_gradients ? whole : own_shard();
  gradients_ = make_home(options.homes.gradients, trainable_ ? home : Range{}, options.gradients,
                         MemoryKind::kGradients);
  check(!options.bytes || !trainable_, "unit ", name_,
        ": weights held as bytes cannot be trained; freeze them");
  check(!policy_.whole_weights || weights_.on_device(), "unit ", name_,
        ": weights that stay whole are at home on the device");
  if (policy_.whole_weights) point_weights(weights_.device());
  if (policy_.whole_gradients && trainable_ && gradients_.on_device())
    point_gradients(gradients_.device());
}

FlatHome Unit::make_home(TiledStore* store, Range range, DType dtype, MemoryKind kind) {
  if (!store) return FlatHome::on_device(backend_, range, dtype, kind);
  return FlatHome::in_store({&backend_, options_.homes.host}, *store, options_.homes.part, 0,
                            range);
}

void Unit::tile_weights() {
  if (!policy_.whole_weights || options_.bytes) return;
  const auto kernels = backend_.infer_kernels();
  for (Parameter* p : parameters_) {
    if (p->tiled() || p->spec().quantizable == Quantizable::kNo || !kernels->tiles(p->value))
      continue;
    kernels->tile(p->value);
    p->set_tiled();
  }
}

// An undefined tensor takes the views away.
void Unit::point_weights(const Tensor& whole) {
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    Parameter& parameter = *parameters_[p];
    const std::int64_t at = layout_.offset(static_cast<std::int64_t>(p));
    if (!whole)
      parameter.value = {};
    else if (parameter.format() != WeightFormat::kPlain)
      parameter.value = whole.elements_at(at, {parameter.bytes(options_.compute)});
    else if (options_.bytes)
      parameter.value = whole.reinterpreted(at, parameter.spec().shape, options_.compute);
    else
      parameter.value = whole.elements_at(at, parameter.spec().shape);
  }
}

void Unit::point_gradients(const Tensor& whole) {
  for (std::size_t p = 0; p < parameters_.size(); ++p)
    if (parameters_[p]->spec().trainable)
      parameters_[p]->grad = whole ? whole.elements_at(layout_.offset(static_cast<std::int64_t>(p)),
                                                       parameters_[p]->spec().shape)
                                   : Tensor();
}

// The own shard goes to its place in the whole buffer where it is not at home on the device.
void Unit::start_gather() {
  if (options_.homes.stream) return start_streamed();
  gathered_ = backend_.allocate({layout_.padded()}, weights_.dtype(), MemoryKind::kParameters);
  const Range own = own_shard();
  Tensor piece;
  if (weights_.on_device()) {
    piece = weights_.device();
  } else {
    piece = gathered_.elements_at(own.begin, {own.size()});
    weights_.load(own, piece);
  }
  gathering_ = data_.all_gather(piece, gathered_);
}

void Unit::start_streamed() {
  WeightStream::Use use = options_.homes.stream->acquire(options_.homes.part);
  gathered_ = std::move(use.whole);
  const Range own = own_shard();
  if (!use.gathered && data_.size() > 1)
    gathering_ = data_.all_gather(gathered_.elements_at(own.begin, {own.size()}), gathered_);
}

void Unit::hold() {
  if (policy_.whole_weights || gathers_++ > 0) return;
  start_gather();
}

void Unit::gather() {
  hold();
  if (policy_.whole_weights || parameters_.empty()) return;
  gathering_.wait();
  if (!parameters_.front()->value) point_weights(gathered_);
}

void Unit::release() {
  if (policy_.whole_weights) return;
  check(gathers_ > 0, "unit ", name_, ": released more often than gathered");
  if (--gathers_ > 0) return;
  gathering_.wait();
  point_weights({});
  gathered_ = {};
  if (options_.homes.stream) options_.homes.stream->release(options_.homes.part);
}

void Unit::abandon() noexcept {
  if (policy_.whole_weights || gathers_ == 0) return;
  gathers_ = 0;
  const bool there = gathered_.defined();
  try {
    gathering_.wait();
  } catch (...) {  // one exception is on its way already
  }
  gathering_ = {};
  point_weights({});
  gathered_ = {};
  try {
    if (there && options_.homes.stream) options_.homes.stream->release(options_.homes.part);
  } catch (...) {  // the slot is empty; what was to fill it is asked for again
  }
}

void Unit::fill(std::size_t index, const SectionSource& source, const FlatHome& master) {
  if (options_.bytes) return fill_bytes(index, source);
  constexpr std::int64_t kPieceElements = 1 << 18;
  const ParameterSpec& spec = parameters_[index]->spec();
  const std::int64_t rows = local_rows(spec), columns = local_columns(spec);
  const std::int64_t step =
      std::max<std::int64_t>(1, kPieceElements / std::max<std::int64_t>(1, columns));
  std::vector<double> values;
  for (std::int64_t row = 0; row < rows && columns > 0; row += step) {
    const std::int64_t count = std::min(step, rows - row);
    const std::int64_t at = layout_.offset(static_cast<std::int64_t>(index)) + row * columns;
    const Range piece{at, at + count * columns};
    const bool wanted = master.defined() && !intersect(piece, master.range()).empty();
    if (!wanted && intersect(piece, weights_.range()).empty()) continue;
    values.resize(static_cast<std::size_t>(piece.size()));
    local_values(spec, source, row, count, values.data());
    weights_.put(at, values);
    if (wanted) master.put(at, values);
  }
}

void Unit::fill_initial(std::uint64_t seed, const FlatHome& master) {
  for (std::size_t p = 0; p < parameters_.size(); ++p)
    fill(p, initial_values(parameters_[p]->spec().init, seed), master);
  weights_.flush();
}

void Unit::load_values(const SectionSource& source, const FlatHome& master) {
  for (std::size_t p = 0; p < parameters_.size(); ++p) fill(p, source, master);
  weights_.flush();
}

void Unit::begin_step(std::int64_t backward_uses) {
  check(uses_left_ == 0, "unit ", name_, ": a step begins while ", uses_left_,
        " backward passes are missing");
  uses_left_ = backward_uses;
  uses_done_ = 0;
  accumulated_ = false;
  for (Parameter* parameter : parameters_) parameter->reset_written();
  if (backward_uses == 0 && trainable_) return gradients_.fill(0.0);
  // Nobody writes there, so a wrong bit would stay, and double with each sum over ranks.
  if (trainable_ && policy_.whole_gradients && gradients_.on_device())
    backend_.kernels()->fill(gradients_.slice({layout_.elements(), layout_.padded()}), 0.0);
}

// Whole gradients that are at home away from the device come back to be added to; shards do not:
// what a micro-batch adds to them is reduced first.
void Unit::begin_backward() {
  const bool at_home = policy_.whole_gradients && gradients_.on_device();
  if (at_home || !trainable_ || open_++ > 0 || open_gradients_) return;
  const std::int64_t padding = layout_.padded() - layout_.elements();
  open_gradients_ =
      backend_.allocate({layout_.padded()}, gradients_.dtype(), MemoryKind::kGradients);
  point_gradients(open_gradients_);
  backend_.kernels()->fill(open_gradients_.elements_at(layout_.elements(), {padding}), 0.0);
  if (policy_.whole_gradients && accumulated_)
    return gradients_.load(gradients_.range(), open_gradients_);
  for (Parameter* parameter : parameters_) parameter->reset_written();
}

void Unit::end_backward() {
  check(uses_left_ > 0, "unit ", name_, ": more backward passes than the schedule has");
  --uses_left_;
  ++uses_done_;
  if (!trainable_) return;
  if (open_gradients_) {
    --open_;
    const bool micro_batch_ends =
        uses_left_ == 0 || uses_done_ % std::max<std::int64_t>(1, users_) == 0;
    if (open_ > 0 || !micro_batch_ends) return;
    if (!policy_.whole_gradients) return reduce_micro_batch();
    if (uses_left_ > 0) return put_away();
  }
  if (uses_left_ == 0) reduce_step();
}

// Parameters that nobody used contribute zeros; so does the padding.
void Unit::zero_unwritten() {
  for (Parameter* parameter : parameters_)
    if (parameter->spec().trainable && !parameter->written())
      backend_.kernels()->fill(parameter->grad, 0.0);
}

// Whole gradients go home until the next micro-batch adds to them.
void Unit::put_away() {
  gradients_.save(gradients_.range(), open_gradients_);
  accumulated_ = true;
  open_gradients_ = {};
  point_gradients({});
}

void Unit::reduce_step() {
  zero_unwritten();
  const Range own = own_shard();
  if (!open_gradients_) {
    reduction_.pending = data_.reduce_scatter(gradients_.device(), gradients_.slice(own));
  } else {
    take_turn();
    reduction_.piece = reduction_.whole.elements_at(own.begin, {own.size()});
    reduction_.pending = data_.reduce_scatter(reduction_.whole, reduction_.piece);
  }
  if (!options_.overlap) complete_reduction();
}

// The open gradients become those in flight, once the reduction before is done.
void Unit::take_turn() {
  complete_reduction();
  if (options_.reductions) options_.reductions->enter(*this);
  reduction_.whole = std::exchange(open_gradients_, Tensor());
  point_gradients({});
}

void Unit::reduce_micro_batch() {
  zero_unwritten();
  take_turn();
  reduction_.piece =
      accumulated_ || !gradients_.on_device()
          ? backend_.allocate({own_shard().size()}, gradients_.dtype(), MemoryKind::kGradients)
          : gradients_.device();
  reduction_.pending = data_.reduce_scatter(reduction_.whole, reduction_.piece);
  if (!options_.reductions || !options_.overlap) complete_reduction();
}

void Unit::complete_reduction() {
  reduction_.pending.wait();
  if (!reduction_.whole) return;
  reduction_.whole = {};
  if (policy_.whole_gradients) {
    gradients_.save(own_shard(), reduction_.piece);
  } else {
    if (accumulated_)
      gradients_.add(own_shard(), reduction_.piece);
    else if (!gradients_.on_device())
      gradients_.save(own_shard(), reduction_.piece);
    accumulated_ = true;
  }
  reduction_ = {};
}

void Unit::finish_reduction() {
  check(uses_left_ == 0, "unit ", name_, ": the step ends but ", uses_left_,
        " backward passes are missing");
  complete_reduction();
  if (trainable_ && options_.replicas && options_.replicas->size() > 1) sum_over_replicas();
}

void Unit::sum_over_replicas() {
  const Range own = own_shard();
  if (gradients_.on_device()) return options_.replicas->all_reduce(gradients_.slice(own)).wait();
  const Tensor sum =
      backend_.allocate({own.size()}, gradients_.dtype(), MemoryKind::kCommunication);
  gradients_.load(own, sum);
  options_.replicas->all_reduce(sum).wait();
  gradients_.save(own, sum);
}

void Unit::share_gradients() {
  if (trainable_) data_.all_gather(gradients_.slice(own_shard()), gradients_.device()).wait();
}

Pending Unit::share_weights() {
  if (!policy_.whole_weights) return {};
  return data_.all_gather(weights_.slice(own_shard()), weights_.device());
}

}  // namespace trireme
