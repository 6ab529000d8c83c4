#include "zero/unit.h"

#include <algorithm>

#include "framework/backend/host_values.h"
#include "framework/base/error.h"

namespace trireme {

namespace {

std::vector<const ParameterSpec*> specs_of(const std::vector<Parameter*>& parameters) {
  std::vector<const ParameterSpec*> specs;
  for (const Parameter* p : parameters) specs.push_back(&p->spec());
  return specs;
}

}  // namespace

Unit::Unit(std::string name, std::vector<Parameter*> parameters, Backend& backend,
           Communicator& data, const UnitOptions& options)
    : name_(std::move(name)),
      parameters_(std::move(parameters)),
      backend_(backend),
      data_(data),
      layout_(specs_of(parameters_), data.size(), size_of(options.compute)),
      weights_(backend.zeros({layout_.padded()}, options.compute, MemoryKind::kParameters)),
      trainable_(std::any_of(parameters_.begin(), parameters_.end(),
                             [](const Parameter* p) { return p->spec().trainable; })),
      gradients_(backend.zeros({trainable_ ? layout_.padded() : 0}, options.gradients,
                               MemoryKind::kGradients)) {
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    Parameter& parameter = *parameters_[p];
    const std::int64_t offset = layout_.offset(static_cast<std::int64_t>(p));
    parameter.value = weights_.elements_at(offset, parameter.spec().shape);
    if (parameter.spec().trainable)
      parameter.grad = gradients_.elements_at(offset, parameter.spec().shape);
  }
}

void Unit::fill(std::size_t index, const SectionSource& source, const Tensor& master) {
  constexpr std::int64_t kPieceElements = 1 << 18;
  const ParameterSpec& spec = parameters_[index]->spec();
  const std::int64_t rows = local_rows(spec), columns = local_columns(spec);
  const std::int64_t step =
      std::max<std::int64_t>(1, kPieceElements / std::max<std::int64_t>(1, columns));
  std::vector<double> values;
  for (std::int64_t row = 0; row < rows && columns > 0; row += step) {
    const std::int64_t count = std::min(step, rows - row);
    values.resize(static_cast<std::size_t>(count * columns));
    local_values(spec, source, row, count, values.data());
    const std::int64_t at = layout_.offset(static_cast<std::int64_t>(index)) + row * columns;
    upload_doubles(backend_, values, weights_.elements_at(at, {count * columns}));
    if (master) upload_doubles(backend_, values, master.elements_at(at, {count * columns}));
  }
}

void Unit::fill_initial(std::uint64_t seed, const Tensor& master) {
  for (std::size_t p = 0; p < parameters_.size(); ++p)
    fill(p, initial_values(parameters_[p]->spec().init, seed), master);
}

void Unit::load_values(const SectionSource& source, const Tensor& master) {
  for (std::size_t p = 0; p < parameters_.size(); ++p) fill(p, source, master);
}

void Unit::begin_step(std::int64_t backward_uses) {
  check(uses_left_ == 0, "unit ", name_, ": a step begins while ", uses_left_,
        " backward passes are missing");
  uses_left_ = backward_uses;
  for (Parameter* parameter : parameters_) parameter->reset_written();
  if (backward_uses == 0 && trainable_) backend_.kernels()->fill(gradients_, 0.0);
}

void Unit::end_backward() {
  check(uses_left_ > 0, "unit ", name_, ": more backward passes than the schedule has");
  if (--uses_left_ > 0 || !trainable_) return;
  // Parameters that nobody used in this step contribute zeros.
  for (Parameter* parameter : parameters_)
    if (parameter->spec().trainable && !parameter->written())
      backend_.kernels()->fill(parameter->grad, 0.0);
  const Range own = own_shard();
  reduction_ = data_.reduce_scatter(gradients_, gradients_.elements_at(own.begin, {own.size()}));
}

void Unit::finish_reduction() {
  check(uses_left_ == 0, "unit ", name_, ": the step ends but ", uses_left_,
        " backward passes are missing");
  reduction_.wait();
}

std::vector<double> Unit::values_of(const Parameter& parameter) const {
  return download_doubles(backend_, parameter.value);
}

}  // namespace trireme
