#include "tests/conformance/backend/op_case.h"

#include <cmath>

#include "tests/support/tensors.h"

namespace trireme::test {

DType resolved(Type type, DType compute) {
  switch (type) {
    case Type::kCompute:
      return compute;
    case Type::kWide:
      return accumulation_type(compute);
    case Type::kF64:
      return DType::kF64;
    case Type::kIds:
      return DType::kI32;
  }
  return compute;
}

std::size_t OpCase::add(Shape shape, Type type, Use use) {
  Operand operand = {.shape = shape, .type = type, .use = use, .values = {}};
  if (use == Use::kOutput)
    operand.values.assign(static_cast<std::size_t>(shape.elements()), NAN);
  else
    operand.values = normals(shape.elements(), 1000 + operands_.size());
  operands_.push_back(std::move(operand));
  return operands_.size() - 1;
}

std::size_t OpCase::ids(const std::vector<std::int32_t>& values) {
  operands_.push_back({.shape = {static_cast<std::int64_t>(values.size())},
                       .type = Type::kIds,
                       .use = Use::kInput,
                       .values = {values.begin(), values.end()},
                       .nan_passes = false});
  return operands_.size() - 1;
}

OpCase with_nan(const OpCase& op, std::size_t operand) {
  OpCase copy = op;
  for (double& value : copy.operands_[operand].values) value = NAN;
  return copy;
}

std::vector<std::vector<double>> run(const OpCase& op, Backend& backend, DType compute, DType as) {
  std::vector<Tensor> tensors;
  for (const Operand& operand : op.operands()) {
    std::vector<double> start = operand.values;
    for (double& value : start) value = rounded(value, resolved(operand.type, as));
    tensors.push_back(tensor(backend, operand.shape, resolved(operand.type, compute), start));
  }
  op.call(backend, tensors);
  std::vector<std::vector<double>> results(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (op.operands()[i].use != Use::kInput) results[i] = values(backend, tensors[i]);
  return results;
}

std::vector<OpCase> all_cases() {
  std::vector<OpCase> all;
  for (auto* part : {linear_cases, elementwise_cases, embedding_cases, norm_cases, attention_cases,
                     loss_cases, optimizer_cases})
    for (OpCase& op : part()) all.push_back(std::move(op));
  return all;
}

}  // namespace trireme::test
