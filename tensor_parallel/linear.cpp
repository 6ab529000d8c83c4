// Legend as in linear.h.
#include "tensor_parallel/linear.h"

#include "framework/autograd/ops.h"
#include "framework/backend/infer_kernels.h"
#include "framework/base/error.h"
#include "framework/nn/norm.h"

namespace trireme {

namespace {

std::int64_t total_rows(const std::vector<ColumnPart>& parts) {
  std::int64_t rows = 0;
  for (const ColumnPart& part : parts) rows += part.rows;
  return rows;
}

// The parts stacked; `columns` = 0 makes the bias.
ParameterSpec stacked(const std::string& name, const std::vector<ColumnPart>& parts,
                      std::int64_t columns, const std::string& suffix, Init init) {
  const bool vector = columns == 0;
  ParameterSpec spec{.name = name + suffix, .init = init, .decay = !vector};
  std::int64_t row = 0;
  for (const ColumnPart& part : parts) {
    spec.sections.push_back(
        {.name = part.name + suffix,
         .logical = vector ? Shape{part.logical_rows} : Shape{part.logical_rows, columns},
         .local_row = row,
         .rows = part.rows,
         .global_row = part.global_row,
         .sum = part.sum,
         .counts_in_norm = part.counts_in_norm});
    row += part.rows;
  }
  spec.shape = vector ? Shape{row} : Shape{row, columns};
  spec.quantizable = vector ? Quantizable::kNo : Quantizable::kLinear;
  return spec;
}

ParameterSpec row_weight(const TensorGroup& group, const LinearOptions& options,
                         std::int64_t outputs) {
  check(options.inputs % group.size() == 0, "row linear ", options.name, ": ", options.inputs,
        " inputs cannot be cut over ", group.size(), " tensor ranks");
  const std::int64_t columns = options.inputs / group.size();
  Section section = whole_section(options.name + ".weight", {outputs, options.inputs});
  section.global_column = columns * group.rank();
  return {.name = options.name + ".weight",
          .shape = {outputs, columns},
          .sections = {section},
          .init = {Init::Kind::kNormal, options.init_std},
          .quantizable = Quantizable::kLinear};
}

// y = x W^T + bias and the adapter's part; returns its `low`. The part goes first, since the large
// product adds to y on its way; a thin one that added would read y again, and do little else.
Tensor adapted_product(const Context& ctx, const Tensor& x, const Parameter& w,
                       const LoraAdapter* lora, const Tensor& bias, const Tensor& y) {
  if (!lora) {
    product(ctx, x, w, bias, y);
    return {};
  }
  const Tensor low = lora->narrow(ctx, x);
  const bool part_last = ctx.inference || w.tiled() || w.format() != WeightFormat::kPlain;
  if (part_last) product(ctx, x, w, bias, y);
  lora->widen(ctx, low, part_last ? Tensor() : bias, y, part_last);
  if (!part_last)
    ctx.backend.kernels()->matmul(
        {.a = x, .b = w.value, .c = y, .transpose_b = true, .accumulate = true});
  return low;
}

// dx = dy W and the adapter's part, the same way; returns the gradient of its `low`.
Tensor adapted_backward(const Context& ctx, const Tensor& dy, const Parameter& w,
                        const LoraAdapter* lora, const Tensor& dx) {
  const Tensor dlow = lora ? lora->backward(ctx, dy, dx) : Tensor();
  if (dx)
    ctx.backend.kernels()->matmul({.a = dy, .b = w.value, .c = dx, .accumulate = dlow.defined()});
  return dlow;
}

}  // namespace

ColumnPart even_part(const TensorGroup& group, std::string name, std::int64_t rows) {
  check(rows % group.size() == 0, "column linear ", name, ": ", rows,
        " outputs cannot be cut over ", group.size(), " tensor ranks");
  const std::int64_t share = rows / group.size();
  return {.name = std::move(name),
          .logical_rows = rows,
          .global_row = share * group.rank(),
          .rows = share};
}

void product(const Context& ctx, const Tensor& x, const Parameter& w, const Tensor& bias,
             const Tensor& y) {
  if (w.format() != WeightFormat::kPlain)
    ctx.backend.infer_kernels()->linear(x, w.quantized(), bias, y);
  else if (w.tiled())
    ctx.backend.infer_kernels()->tiled_linear(x, w.value, bias, y);
  else if (ctx.inference)
    ctx.backend.infer_kernels()->linear(x, w.value, bias, y);
  else
    ctx.backend.kernels()->matmul(
        {.a = x, .b = w.value, .c = y, .transpose_b = true, .bias = bias});
}

void add_weight_gradient(Backend& backend, Parameter& weight, const Tensor& dy, const Tensor& x) {
  if (!weight.spec().trainable) return;
  backend.kernels()->matmul(
      {.a = dy, .b = x, .c = weight.grad, .transpose_a = true, .accumulate = weight.accumulate()});
}

void add_bias_gradient(Backend& backend, Parameter& bias, const Tensor& dy) {
  if (bias.spec().trainable) backend.train_kernels()->column_sum(dy, bias.grad, bias.accumulate());
}

ColumnLinear::ColumnLinear(const TensorGroup& group, const LinearOptions& options,
                           const std::vector<ColumnPart>& parts)
    : group_(group),
      weight_(stacked(options.name, parts, options.inputs, ".weight",
                      {Init::Kind::kNormal, options.init_std})) {
  check(total_rows(parts) > 0, "column linear ", options.name, ": no outputs on tensor rank ",
        group.rank());
  if (options.bias) bias_.emplace(stacked(options.name, parts, 0, ".bias", {Init::Kind::kZeros}));
  lora_ = LoraAdapter::of_columns(group, options.lora, options.name, options.inputs, parts);
}

void ColumnLinear::visit(const ParameterFn& fn) {
  fn(weight_);
  if (bias_) fn(*bias_);
  if (lora_) lora_->visit(fn);
}

Var ColumnLinear::forward(const Context& ctx, const Var& x) {
  check(x.value.columns() == weight_.spec().shape[1], "linear: x has ", x.value.columns(),
        " columns but weight ", weight_.name(), " is ", weight_.spec().shape);
  const bool shards = shards_rows(ctx, group_);
  Var in = as_type(ctx, x, ctx.compute);
  Tensor whole = shards ? gather_rows(ctx, group_, in.value) : in.value;  // (R, K)
  Tensor y = ctx.backend.allocate({whole.rows(), weight_.spec().shape[0]}, ctx.compute,
                                  MemoryKind::kActivations);
  const Tensor low = adapted_product(ctx, whole, weight_, lora_ ? &*lora_ : nullptr,
                                     bias_ ? bias_->value : Tensor(), y);
  const bool trains = wants_grad(*this);
  Var out = make_var(y, ctx.tape && (in.wants_grad() || trains));
  if (!out.wants_grad()) return out;
  const bool keeps = weight_.spec().trainable || (lora_ && lora_->needs_input());
  ctx.tape->record([this, ctx, shards, trains, keeps, low, saved = Saved(keeps ? in : Var()),
                    upstream = in.grad, shape = whole.shape(), slot = out.grad] {
    if (group_.size() == 1 && slot->empty()) return;
    Tensor dy = take_or_zeros(ctx, *slot, {shape[0], weight_.spec().shape[0]}, ctx.compute);
    // The shard was kept, so x is gathered again: at once under the dX product, or by the W action
    // itself.
    auto gathered = std::make_shared<GatheredRows>();
    const bool gathers = shards && keeps;
    if (gathers && !ctx.tape->split()) *gathered = start_gather_rows(ctx, group_, saved.get());
    Tensor dx;
    if (upstream) dx = ctx.backend.allocate(shape, ctx.compute, MemoryKind::kActivations);
    const Tensor dlow = adapted_backward(ctx, dy, weight_, lora_ ? &*lora_ : nullptr, dx);
    gathered->pending.wait();
    if (trains)
      ctx.tape->later([this, ctx, gathers, saved, gathered, low, dlow, dy] {
        Tensor input = gathered->whole;
        if (!input) input = gathers ? gather_rows(ctx, group_, saved.get()) : saved.get();
        add_weight_gradient(ctx.backend, weight_, dy, input);
        if (bias_) add_bias_gradient(ctx.backend, *bias_, dy);
        if (lora_) lora_->add_weight_gradients(ctx, dy, low, dlow, input);
      });
    if (upstream) upstream->add(ctx.backend, sum_backward(ctx, group_, dx));
  });
  return out;
}

RowLinear::RowLinear(const TensorGroup& group, const LinearOptions& options, std::int64_t outputs,
                     bool sequence_parallel)
    : group_(group), weight_(row_weight(group, options, outputs)) {
  if (options.bias)
    bias_.emplace(replicated_vector(
        options.name + ".bias", outputs, {Init::Kind::kZeros},
        sequence_parallel && group.size() > 1 ? SumGroup::kTensor : SumGroup::kNone,
        group.rank() == 0));
  lora_ = LoraAdapter::of_rows(group, options.lora, options.name, options.inputs, outputs);
}

void RowLinear::visit(const ParameterFn& fn) {
  fn(weight_);
  if (bias_) fn(*bias_);
  if (lora_) lora_->visit(fn);
}

Var RowLinear::forward(const Context& ctx, const Var& x) {
  check(x.value.columns() == weight_.spec().shape[1], "linear: x has ", x.value.columns(),
        " columns but weight ", weight_.name(), " is ", weight_.spec().shape);
  Var in = as_type(ctx, x, ctx.compute);
  Tensor partial = ctx.backend.allocate({in.value.rows(), weight_.spec().shape[0]}, ctx.compute,
                                        MemoryKind::kActivations);
  const bool alone = group_.size() == 1;
  const Tensor low = adapted_product(ctx, in.value, weight_, lora_ ? &*lora_ : nullptr,
                                     alone && bias_ ? bias_->value : Tensor(), partial);
  Tensor y = sum_forward(ctx, group_, partial);
  if (!alone && bias_) ctx.backend.kernels()->add_bias(bias_->value, y);
  const bool trains = wants_grad(*this);
  Var out = make_var(y, ctx.tape && (in.wants_grad() || trains));
  if (!out.wants_grad()) return out;
  const bool keeps = weight_.spec().trainable || (lora_ && lora_->needs_input());
  ctx.tape->record([this, ctx, trains, low, saved = Saved(keeps ? in : Var()), upstream = in.grad,
                    shape = in.value.shape(), y_shape = y.shape(), slot = out.grad] {
    if (group_.size() == 1 && slot->empty()) return;
    Tensor dy_rows = take_or_zeros(ctx, *slot, y_shape, ctx.compute);
    Tensor dy = whole_gradient(ctx, group_, dy_rows);  // (R, N)
    Tensor dx;
    if (upstream) dx = ctx.backend.allocate(shape, ctx.compute, MemoryKind::kActivations);
    const Tensor dlow = adapted_backward(ctx, dy, weight_, lora_ ? &*lora_ : nullptr, dx);
    if (upstream) upstream->add(ctx.backend, std::move(dx));
    if (trains)
      ctx.tape->later([this, ctx, saved, low, dlow, dy, dy_rows] {
        const Tensor input = saved.get();
        add_weight_gradient(ctx.backend, weight_, dy, input);
        if (bias_) add_bias_gradient(ctx.backend, *bias_, dy_rows);
        if (lora_) lora_->add_weight_gradients(ctx, dy, low, dlow, input);
      });
    // No collective hides this gradient: made now, its operands die before the way goes on.
    if (group_.size() == 1) ctx.tape->drain_unless_split();
  });
  return out;
}

}  // namespace trireme
