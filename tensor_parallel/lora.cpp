// Legend as in lora.h.
#include "tensor_parallel/lora.h"

#include <algorithm>
#include <cmath>

#include "framework/backend/host_values.h"
#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight";

SumGroup summed(const TensorGroup& group) {
  return group.size() > 1 ? SumGroup::kTensor : SumGroup::kNone;
}

// Adds its part to a gradient, or begins it.
void add_product(Backend& backend, Parameter& to, const Tensor& a, const Tensor& b) {
  if (!to.spec().trainable) return;
  backend.kernels()->matmul(
      {.a = a, .b = b, .c = to.grad, .transpose_a = true, .accumulate = to.accumulate()});
}

// Row i of `to` = row rows[i] of `from`, or zeros. Changes no bit.
void take_rows(Backend& backend, const Tensor& from, const std::vector<std::int32_t>& rows,
               const Tensor& to) {
  const Tensor ids = backend.allocate({std::ssize(rows)}, DType::kI32, MemoryKind::kWorkspace);
  upload_ids(backend, rows, ids);
  backend.kernels()->embedding(ids, from, 0, to);
}

}  // namespace

bool LoraOptions::adapts(std::string_view linear) const {
  return rank > 0 && std::any_of(targets.begin(), targets.end(), [&](const std::string& target) {
           return linear.size() > target.size() && linear.ends_with(target) &&
                  linear[linear.size() - target.size() - 1] == '.';
         });
}

std::string lora_a_name(const std::string& linear) { return linear + std::string(kA); }
std::string lora_b_name(const std::string& linear) { return linear + std::string(kB); }
bool is_adapter(std::string_view parameter) {
  return parameter.ends_with(kA) || parameter.ends_with(kB);
}
// A is uniform in +-1 / sqrt(K): torch's kaiming_uniform_ with a = sqrt(5).
Init lora_init(std::string_view name, const Shape& logical) {
  if (!name.ends_with(kA)) return {};
  return {Init::Kind::kUniform, 1.0 / std::sqrt(static_cast<double>(logical[1]))};
}

LoraAdapter::LoraAdapter(ParameterSpec a, ParameterSpec b, std::vector<Span> spans,
                         std::int64_t outputs, const LoraOptions& options)
    : a_(std::move(a)),
      b_(std::move(b)),
      spans_(std::move(spans)),
      outputs_(outputs),
      rank_(options.rank),
      adapters_(a_.spec().shape[0] / options.rank),
      scale_(options.scale) {}

std::optional<LoraAdapter> LoraAdapter::of_columns(const TensorGroup& group,
                                                   const LoraOptions& options,
                                                   const std::string& linear, std::int64_t inputs,
                                                   const std::vector<ColumnPart>& parts) {
  const bool one = options.adapts(linear) &&
                   std::none_of(parts.begin(), parts.end(),
                                [&](const ColumnPart& part) { return part.name == linear; });
  const std::int64_t r = options.rank;
  ParameterSpec a{.name = lora_a_name(linear), .init = lora_init(kA, {r, inputs})};
  ParameterSpec b{.name = lora_b_name(linear)};
  std::vector<Span> spans;
  std::int64_t row = 0, b_row = 0, adapters = 0;
  const auto add_a = [&](const std::string& name) {
    Section section = whole_section(lora_a_name(name), {r, inputs});
    section.local_row = r * adapters++;
    section.sum = summed(group);
    section.counts_in_norm = group.rank() == 0;
    a.sections.push_back(std::move(section));
  };
  if (one) add_a(linear);
  for (const ColumnPart& part : parts) {
    if (one || options.adapts(part.name)) {
      if (!one) add_a(part.name);
      b.sections.push_back({.name = lora_b_name(part.name),
                            .logical = {part.logical_rows, r},
                            .local_row = b_row,
                            .rows = part.rows,
                            .global_row = part.global_row,
                            .sum = part.sum,
                            .counts_in_norm = part.counts_in_norm});
      spans.push_back({.row = row, .b_row = b_row, .rows = part.rows, .adapter = adapters - 1});
      b_row += part.rows;
    }
    row += part.rows;
  }
  if (spans.empty()) return std::nullopt;
  a.shape = {adapters * r, inputs};
  b.shape = {b_row, r};
  return LoraAdapter(std::move(a), std::move(b), std::move(spans), row, options);
}

std::optional<LoraAdapter> LoraAdapter::of_rows(const TensorGroup& group,
                                                const LoraOptions& options,
                                                const std::string& linear, std::int64_t inputs,
                                                std::int64_t outputs) {
  if (!options.adapts(linear)) return std::nullopt;
  const std::int64_t r = options.rank, columns = inputs / group.size();
  Section a = whole_section(lora_a_name(linear), {r, inputs});
  a.global_column = columns * group.rank();
  Section b = whole_section(lora_b_name(linear), {outputs, r});
  b.sum = summed(group);
  b.counts_in_norm = group.rank() == 0;
  return LoraAdapter(
      {.name = a.name, .shape = {r, columns}, .sections = {a}, .init = lora_init(kA, {r, inputs})},
      {.name = b.name, .shape = b.logical, .sections = {b}}, {{.rows = outputs}}, outputs, options);
}

void LoraAdapter::visit(const ParameterFn& fn) {
  fn(a_);
  fn(b_);
}

// Is B itself the factor of all outputs?
bool LoraAdapter::direct() const { return adapters_ == 1 && b_.spec().shape[0] == outputs_; }

// Where row n of B stands among the rows of (N P, r), and the other way round; -1: nowhere.
std::vector<std::int32_t> LoraAdapter::spread_rows() const {
  std::vector<std::int32_t> rows(static_cast<std::size_t>(outputs_ * adapters_), -1);
  for (const Span& s : spans_)
    for (std::int64_t i = 0; i < s.rows; ++i)
      rows[static_cast<std::size_t>((s.row + i) * adapters_ + s.adapter)] =
          static_cast<std::int32_t>(s.b_row + i);
  return rows;
}

std::vector<std::int32_t> LoraAdapter::gathered_rows() const {
  std::vector<std::int32_t> rows(static_cast<std::size_t>(b_.spec().shape[0]));
  for (const Span& s : spans_)
    for (std::int64_t i = 0; i < s.rows; ++i)
      rows[static_cast<std::size_t>(s.b_row + i)] =
          static_cast<std::int32_t>((s.row + i) * adapters_ + s.adapter);
  return rows;
}

// (N, P r): rows of an adapter have its columns filled, everything else is 0.
Tensor LoraAdapter::spread_b(const Context& ctx) const {
  if (direct()) return b_.value;
  const Tensor wide =
      ctx.backend.allocate({outputs_ * adapters_, rank_}, ctx.compute, MemoryKind::kWorkspace);
  take_rows(ctx.backend, b_.value, spread_rows(), wide);
  return wide.reshaped({outputs_, adapters_ * rank_});
}

Tensor LoraAdapter::narrow(const Context& ctx, const Tensor& x) const {
  Tensor low = ctx.backend.allocate({x.rows(), adapters_ * rank_}, ctx.compute,
                                    MemoryKind::kActivations);  // (R, P r)
  ctx.backend.kernels()->matmul({.a = x, .b = a_.value, .c = low, .transpose_b = true});
  ctx.backend.kernels()->scale(low, scale_);
  return low;
}

void LoraAdapter::widen(const Context& ctx, const Tensor& low, const Tensor& bias, const Tensor& y,
                        bool accumulate) const {
  ctx.backend.kernels()->matmul({.a = low,
                                 .b = spread_b(ctx),
                                 .c = y,
                                 .transpose_b = true,
                                 .accumulate = accumulate,
                                 .bias = bias});
}

Tensor LoraAdapter::backward(const Context& ctx, const Tensor& dy, const Tensor& dx) const {
  Tensor low = ctx.backend.allocate({dy.rows(), adapters_ * rank_}, ctx.compute,
                                    MemoryKind::kActivations);  // (R, P r)
  ctx.backend.kernels()->matmul({.a = dy, .b = spread_b(ctx), .c = low});
  ctx.backend.kernels()->scale(low, scale_);
  if (dx) ctx.backend.kernels()->matmul({.a = low, .b = a_.value, .c = dx});
  return low;
}

void LoraAdapter::add_weight_gradients(const Context& ctx, const Tensor& dy, const Tensor& low,
                                       const Tensor& low_gradient, const Tensor& x) {
  add_product(ctx.backend, a_, low_gradient, x);
  if (direct()) return add_product(ctx.backend, b_, dy, low);
  if (!b_.spec().trainable) return;
  const DType dtype = b_.grad.dtype();
  const Tensor wide =
      ctx.backend.allocate({outputs_, adapters_ * rank_}, dtype, MemoryKind::kWorkspace);
  ctx.backend.kernels()->matmul({.a = dy, .b = low, .c = wide, .transpose_a = true});
  const Tensor rows = wide.reshaped({outputs_ * adapters_, rank_});
  if (!b_.accumulate()) return take_rows(ctx.backend, rows, gathered_rows(), b_.grad);
  const Tensor part = ctx.backend.allocate(b_.grad.shape(), dtype, MemoryKind::kWorkspace);
  take_rows(ctx.backend, rows, gathered_rows(), part);
  ctx.backend.kernels()->add(b_.grad, part, b_.grad);
}

}  // namespace trireme
