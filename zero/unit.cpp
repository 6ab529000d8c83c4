#include "zero/unit.h"

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
      gradients_(backend.zeros({layout_.padded()}, options.gradients, MemoryKind::kGradients)) {
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    Parameter& parameter = *parameters_[p];
    const std::int64_t offset = layout_.offset(static_cast<std::int64_t>(p));
    parameter.value = weights_.elements_at(offset, parameter.spec().shape);
    if (parameter.spec().trainable)
      parameter.grad = gradients_.elements_at(offset, parameter.spec().shape);
    has_trainable_ |= parameter.spec().trainable;
  }
  fill_weights(options.seed);
}

void Unit::fill_weights(std::uint64_t seed) {
  for (Parameter* parameter : parameters_) {
    const std::int64_t n = parameter->spec().shape.elements();
    if (n == 0) continue;
    std::vector<double> values(static_cast<std::size_t>(n));
    initial_values(parameter->spec(), seed, values.data());
    upload_doubles(backend_, values, parameter->value);
  }
}

void Unit::load_values(const SectionSource& source) {
  for (Parameter* parameter : parameters_) {
    std::vector<double> values(static_cast<std::size_t>(parameter->spec().shape.elements()));
    if (values.empty()) continue;
    local_values(parameter->spec(), source, values.data());
    upload_doubles(backend_, values, parameter->value);
  }
}

void Unit::begin_step(std::int64_t backward_uses) {
  check(uses_left_ == 0, "unit ", name_, ": a step begins while ", uses_left_,
        " backward passes are missing");
  uses_left_ = backward_uses;
  for (Parameter* parameter : parameters_) parameter->reset_written();
  if (backward_uses == 0) backend_.kernels()->fill(gradients_, 0.0);
}

void Unit::end_backward() {
  check(uses_left_ > 0, "unit ", name_, ": more backward passes than the schedule has");
  if (--uses_left_ > 0 || !has_trainable_) return;
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
