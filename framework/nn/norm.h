// Layer norm and RMS norm as modules.
#pragma once

#include <string>

#include "framework/nn/module.h"

namespace trireme {

// kRmsNormPlusOne multiplies by weight + 1 (Gemma).
enum class NormKind : std::uint8_t { kLayerNorm, kRmsNorm, kRmsNormPlusOne };

struct NormOptions {
  NormKind kind = NormKind::kLayerNorm;
  std::int64_t columns = 0;
  double eps = 1e-5;
  // Under sequence parallelism each tensor rank sees only its rows, so gradients are summed over
  // them.
  SumGroup sum = SumGroup::kNone;
  bool counts_in_norm = true;  // false on tensor ranks > 0, which hold a copy
};

// weight starts at 1 (at 0 with kRmsNormPlusOne), bias (layer norm only) at 0; names are
// `name`.weight and `name`.bias. Neither decays.
class Norm : public Module {
 public:
  Norm(const std::string& name, const NormOptions& options);
  // (R, C) stream -> (R, C) compute
  Var forward(const Context& ctx, const Var& x) override;
  void visit(const ParameterFn& fn) override;

 private:
  NormOptions options_;
  Parameter weight_, bias_;
};

// A parameter held whole by every tensor rank, e.g. a norm's weight or a row linear's bias. Does
// not decay.
ParameterSpec replicated_vector(std::string name, std::int64_t elements, Init init, SumGroup sum,
                                bool counts_in_norm);

}  // namespace trireme
