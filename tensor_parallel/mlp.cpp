#include "tensor_parallel/mlp.h"

#include "framework/autograd/ops.h"

namespace trireme {

namespace {

std::vector<ColumnPart> up_parts(const TensorGroup& group, const std::string& name,
                                 const MlpOptions& o) {
  std::vector<ColumnPart> parts;
  if (o.gated) parts.push_back(even_part(group, name + ".gate", o.ffn));
  parts.push_back(even_part(group, name + ".up", o.ffn));
  return parts;
}

}  // namespace

Mlp::Mlp(const TensorGroup& group, const std::string& name, const MlpOptions& o)
    : options_(o),
      up_(group, {name + ".up", o.inputs > 0 ? o.inputs : o.columns, o.bias, o.init_std, o.lora},
          up_parts(group, name, o)),
      down_(group, {name + ".down", o.ffn, o.bias, o.output_init_std, o.lora}, o.columns,
            o.sequence_parallel) {}

void Mlp::visit(const ParameterFn& fn) {
  up_.visit(fn);
  down_.visit(fn);
}

Var Mlp::forward(const Context& ctx, const Var& x) {
  return down_.forward(ctx,
                       activation(ctx, up_.forward(ctx, x), options_.activation, options_.gated));
}

}  // namespace trireme
