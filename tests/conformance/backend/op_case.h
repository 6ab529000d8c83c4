// One case of a kernel, as data: operands by shape and type, and the call. The same list runs on
// every backend and type.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "framework/backend/backend.h"

namespace trireme::test {

// The type of an operand when the case runs with a compute type.
enum class Type { kCompute, kWide, kF64, kIds };
DType resolved(Type type, DType compute);

enum class Use { kInput, kOutput, kBoth };

struct Operand {
  Shape shape;
  Type type = Type::kCompute;
  Use use = Use::kInput;
  std::vector<double> values;  // before rounding to the operand's type; NaN for a pure output
  bool nan_passes = true;      // a NaN here must reach an output
};

using Tensors = std::span<const Tensor>;

class OpCase {
 public:
  explicit OpCase(std::string name) : name_(std::move(name)) {}

  // Each adds an operand and returns its place in the Tensors that the call gets. Values are
  // standard normal.
  std::size_t in(Shape shape, Type type = Type::kCompute) { return add(shape, type, Use::kInput); }
  std::size_t both(Shape shape, Type type = Type::kCompute) { return add(shape, type, Use::kBoth); }
  std::size_t out(Shape shape, Type type = Type::kCompute) {
    return add(shape, type, Use::kOutput);
  }
  std::size_t ids(const std::vector<std::int32_t>& values);
  // A NaN in this operand need not reach an output.
  void exempt_from_nan(std::size_t operand) { operands_[operand].nan_passes = false; }
  OpCase&& calls(std::function<void(Backend&, Tensors)> call) && {
    call_ = std::move(call);
    return std::move(*this);
  }

  const std::string& name() const { return name_; }
  const std::vector<Operand>& operands() const { return operands_; }
  // A copy whose operand is all NaN.
  friend OpCase with_nan(const OpCase& op, std::size_t operand);
  void call(Backend& backend, Tensors tensors) const { call_(backend, tensors); }

 private:
  std::size_t add(Shape shape, Type type, Use use);

  std::string name_;
  std::vector<Operand> operands_;
  std::function<void(Backend&, Tensors)> call_;
};

// The values of all outputs (empty for inputs) after running the case on `backend` with `compute`.
// Operands in `as` types first take the values that they have in a run with compute type `as`: so a
// wider run sees the very same numbers.
std::vector<std::vector<double>> run(const OpCase& op, Backend& backend, DType compute, DType as);

// The whole list.
std::vector<OpCase> all_cases();

// By kind of kernel, a file each.
std::vector<OpCase> linear_cases();
std::vector<OpCase> elementwise_cases();
std::vector<OpCase> embedding_cases();
std::vector<OpCase> norm_cases();
std::vector<OpCase> attention_cases();
std::vector<OpCase> loss_cases();
std::vector<OpCase> optimizer_cases();

}  // namespace trireme::test
