#include "framework/nn/norm.h"

#include "framework/autograd/ops.h"

namespace trireme {

ParameterSpec replicated_vector(std::string name, std::int64_t elements, Init init, SumGroup sum,
                                bool counts_in_norm) {
  Section section = whole_section(name, {elements});
  section.sum = sum;
  section.counts_in_norm = counts_in_norm;
  return {.name = std::move(name),
          .shape = {elements},
          .sections = {section},
          .init = init,
          .decay = false};
}

Norm::Norm(const std::string& name, const NormOptions& options)
    : options_(options),
      weight_(replicated_vector(
          name + ".weight", options.columns,
          {options.kind == NormKind::kRmsNormPlusOne ? Init::Kind::kZeros : Init::Kind::kOnes},
          options.sum, options.counts_in_norm)),
      bias_(replicated_vector(name + ".bias", options.columns, {Init::Kind::kZeros}, options.sum,
                              options.counts_in_norm)) {}

Var Norm::forward(const Context& ctx, const Var& x) {
  if (options_.kind == NormKind::kLayerNorm)
    return layer_norm(ctx, x, weight_, bias_, options_.eps);
  const double offset = options_.kind == NormKind::kRmsNormPlusOne ? 1.0 : 0.0;
  return rms_norm(ctx, x, weight_, {options_.eps, offset});
}

void Norm::visit(const ParameterFn& fn) {
  fn(weight_);
  if (options_.kind == NormKind::kLayerNorm) fn(bias_);
}

}  // namespace trireme
