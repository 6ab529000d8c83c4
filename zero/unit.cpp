#include "zero/unit.h"

#include <algorithm>
#include <span>
#include <utility>

#include "framework/backend/host_values.h"
#include "framework/base/error.h"

namespace trireme {

namespace {

std::vector<const ParameterSpec*> specs_of(const std::vector<Parameter*>& parameters) {
  std::vector<const ParameterSpec*> specs;
  for (const Parameter* p : parameters) specs.push_back(&p->spec());
  return specs;
}

FlatTensor flat_zeros(Backend& backend, Range range, DType dtype, MemoryKind kind) {
  return {backend.zeros({range.size()}, dtype, kind), range};
}

// The part of `values`, which begin at element `at`, that `flat` holds.
void store(Backend& backend, std::span<const double> values, std::int64_t at,
           const FlatTensor& flat) {
  if (!flat.data) return;
  const Range part = intersect({at, at + static_cast<std::int64_t>(values.size())}, flat.range);
  if (part.empty()) return;
  upload_doubles(backend,
                 values.subspan(static_cast<std::size_t>(part.begin - at),
                                static_cast<std::size_t>(part.size())),
                 flat.slice(part));
}

}  // namespace

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
      policy_(options.policy),
      reductions_(options.reductions),
      layout_(specs_of(parameters_), data.size(), size_of(options.compute)),
      trainable_(std::any_of(parameters_.begin(), parameters_.end(),
                             [](const Parameter* p) { return p->spec().trainable; })) {
  const Range whole{0, layout_.padded()};
  weights_ = flat_zeros(backend, policy_.whole_weights ? whole : own_shard(), options.compute,
                        MemoryKind::kParameters);
  const Range home = policy_.whole_gradients ? whole : own_shard();
  gradients_ =
      flat_zeros(backend, trainable_ ? home : Range{}, options.gradients, MemoryKind::kGradients);
  if (policy_.whole_weights) point_weights(weights_.data);
  if (policy_.whole_gradients && trainable_) point_gradients(gradients_.data);
}

// An undefined tensor takes the views away.
void Unit::point_weights(const Tensor& whole) {
  for (std::size_t p = 0; p < parameters_.size(); ++p)
    parameters_[p]->value = whole ? whole.elements_at(layout_.offset(static_cast<std::int64_t>(p)),
                                                      parameters_[p]->spec().shape)
                                  : Tensor();
}

void Unit::point_gradients(const Tensor& whole) {
  for (std::size_t p = 0; p < parameters_.size(); ++p)
    if (parameters_[p]->spec().trainable)
      parameters_[p]->grad = whole ? whole.elements_at(layout_.offset(static_cast<std::int64_t>(p)),
                                                       parameters_[p]->spec().shape)
                                   : Tensor();
}

void Unit::gather() {
  if (policy_.whole_weights || gathers_++ > 0) return;
  gathered_ = backend_.allocate({layout_.padded()}, weights_.data.dtype(), MemoryKind::kParameters);
  data_.all_gather(weights_.data, gathered_).wait();
  point_weights(gathered_);
}

void Unit::release() {
  if (policy_.whole_weights) return;
  check(gathers_ > 0, "unit ", name_, ": released more often than gathered");
  if (--gathers_ > 0) return;
  point_weights({});
  gathered_ = {};
}

void Unit::fill(std::size_t index, const SectionSource& source, const FlatTensor& master) {
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
    if (intersect(piece, weights_.range).empty() && intersect(piece, master.range).empty())
      continue;
    values.resize(static_cast<std::size_t>(piece.size()));
    local_values(spec, source, row, count, values.data());
    store(backend_, values, at, weights_);
    store(backend_, values, at, master);
  }
}

void Unit::fill_initial(std::uint64_t seed, const FlatTensor& master) {
  for (std::size_t p = 0; p < parameters_.size(); ++p)
    fill(p, initial_values(parameters_[p]->spec().init, seed), master);
}

void Unit::load_values(const SectionSource& source, const FlatTensor& master) {
  for (std::size_t p = 0; p < parameters_.size(); ++p) fill(p, source, master);
}

void Unit::begin_step(std::int64_t backward_uses) {
  check(uses_left_ == 0, "unit ", name_, ": a step begins while ", uses_left_,
        " backward passes are missing");
  uses_left_ = backward_uses;
  uses_done_ = 0;
  accumulated_ = false;
  for (Parameter* parameter : parameters_) parameter->reset_written();
  if (backward_uses == 0 && trainable_) backend_.kernels()->fill(gradients_.data, 0.0);
}

void Unit::begin_backward() {
  if (policy_.whole_gradients || !trainable_ || open_++ > 0 || open_gradients_) return;
  open_gradients_ =
      backend_.allocate({layout_.padded()}, gradients_.data.dtype(), MemoryKind::kGradients);
  for (Parameter* parameter : parameters_) parameter->reset_written();
  point_gradients(open_gradients_);
}

void Unit::end_backward() {
  check(uses_left_ > 0, "unit ", name_, ": more backward passes than the schedule has");
  --uses_left_;
  ++uses_done_;
  if (!trainable_) return;
  if (policy_.whole_gradients) {
    if (uses_left_ == 0) reduce_step();
    return;
  }
  --open_;
  const bool micro_batch_ends =
      uses_left_ == 0 || uses_done_ % std::max<std::int64_t>(1, users_) == 0;
  if (open_ == 0 && micro_batch_ends) reduce_micro_batch();
}

// Parameters that nobody used contribute zeros; so does the padding.
void Unit::zero_unwritten() {
  for (Parameter* parameter : parameters_)
    if (parameter->spec().trainable && !parameter->written())
      backend_.kernels()->fill(parameter->grad, 0.0);
}

void Unit::reduce_step() {
  zero_unwritten();
  reduction_.pending = data_.reduce_scatter(gradients_.data, gradients_.slice(own_shard()));
}

void Unit::reduce_micro_batch() {
  zero_unwritten();
  complete_reduction();
  if (reductions_) reductions_->enter(*this);
  reduction_.whole = std::exchange(open_gradients_, Tensor());
  point_gradients({});
  reduction_.piece = accumulated_
                         ? backend_.allocate(gradients_.data.shape(), gradients_.data.dtype(),
                                             MemoryKind::kGradients)
                         : gradients_.data;
  reduction_.pending = data_.reduce_scatter(reduction_.whole, reduction_.piece);
  if (!reductions_) complete_reduction();
}

void Unit::complete_reduction() {
  if (!reduction_.whole) return;
  reduction_.pending.wait();
  if (accumulated_) backend_.kernels()->add(gradients_.data, reduction_.piece, gradients_.data);
  accumulated_ = true;
  reduction_ = {};
}

void Unit::finish_reduction() {
  check(uses_left_ == 0, "unit ", name_, ": the step ends but ", uses_left_,
        " backward passes are missing");
  complete_reduction();
  reduction_.pending.wait();
}

}  // namespace trireme
