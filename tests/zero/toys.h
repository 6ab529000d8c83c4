// A unit whose gradients are written by hand, for tests of reduction, norms and updates.
#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "framework/backend/host_values.h"
#include "tests/support/ranks.h"
#include "zero/optimizer.h"

namespace trireme::test {

inline ParameterSpec toy_spec(const std::string& name, std::int64_t elements,
                              SumGroup sum = SumGroup::kNone, bool counts_in_norm = true) {
  Section section = whole_section(name, {elements});
  section.sum = sum;
  section.counts_in_norm = counts_in_norm;
  return {.name = name,
          .shape = {elements},
          .sections = {section},
          .init = {Init::Kind::kOnes},
          .decay = false};
}

// Gradients in the wide type, and all whole.
inline UnitOptions toy_options(DType compute) {
  return {.compute = compute, .gradients = accumulation_type(compute)};
}

class ToyUnit {
 public:
  ToyUnit(const std::vector<ParameterSpec>& specs, Backend& backend, Communicator& data,
          DType compute = DType::kF64, std::string name = "toy")
      : ToyUnit(specs, backend, data, toy_options(compute), std::move(name)) {}
  ToyUnit(const std::vector<ParameterSpec>& specs, Backend& backend, Communicator& data,
          const UnitOptions& options, std::string name = "toy")
      : backend_(backend), parameters_(made(specs)) {
    std::vector<Parameter*> all;
    for (Parameter& p : parameters_) all.push_back(&p);
    unit_ = std::make_unique<Unit>(std::move(name), all, backend, data, options);
  }

  Unit& unit() { return *unit_; }
  Parameter& parameter(std::size_t i) { return parameters_[i]; }
  // Collective over the data ranks at stage 3.
  std::vector<double> values(std::size_t i = 0) {
    unit_->gather();
    std::vector<double> result = download_doubles(backend_, parameters_[i].value);
    unit_->release();
    return result;
  }
  std::vector<double> gradient(std::size_t i = 0) {
    return download_doubles(backend_, parameters_[i].grad);
  }

  // One step's backward: a gradient per parameter, none = that parameter was not used.
  void backward(const std::vector<std::vector<double>>& gradients) {
    unit_->begin_step(1);
    unit_->begin_backward();
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].empty()) continue;
      parameters_[i].accumulate();
      upload_doubles(backend_, gradients[i], parameters_[i].grad);
    }
    unit_->end_backward();
  }

 private:
  static std::deque<Parameter> made(const std::vector<ParameterSpec>& specs) {
    std::deque<Parameter> all;
    for (const ParameterSpec& spec : specs) all.emplace_back(spec);
    return all;
  }

  Backend& backend_;
  std::deque<Parameter> parameters_;
  std::unique_ptr<Unit> unit_;
};

// Plain SGD: a weight moves by lr times its gradient, so a test sees the gradient that was used.
inline ZeroOptions sgd(double lr) {
  return {.optimizer = {.kind = OptimizerKind::kSgd}, .schedule = {.lr = lr}};
}

}  // namespace trireme::test
