#include "recipes/memory/state_formulas.h"

#include "framework/base/error.h"
#include "zero/stage.h"

namespace trireme {

namespace {

// Bytes per element of what is whole and of what is cut on one tier.
struct Sums {
  std::int64_t whole = 0, cut = 0;
};

Sums sums_of(const std::vector<StateTerm>& terms, Tier tier) {
  Sums sums;
  for (const StateTerm& term : terms)
    if (term.tier == tier) (term.cut ? sums.cut : sums.whole) += term.each;
  return sums;
}

std::string product(std::int64_t each, bool cut) { return join(each, cut ? " Psi / N" : " Psi"); }

std::string joined(const Sums& sums) {
  if (sums.whole == 0 && sums.cut == 0) return "0";
  if (sums.cut == 0) return product(sums.whole, false);
  if (sums.whole == 0) return product(sums.cut, true);
  return product(sums.whole, false) + " + " + product(sums.cut, true);
}

}  // namespace

std::vector<StateTerm> state_terms(const StateLayout& layout, const StateTypes& types) {
  check(layout.stage >= 0 && layout.stage <= 3, "zero.stage = ", layout.stage,
        "; use 0, 1, 2 or 3");
  check(layout.ranks > 0 && layout.elements % layout.ranks == 0, "model states: ", layout.elements,
        " elements are no multiple of ", layout.ranks, " ranks");
  const StagePolicy policy = policy_of(layout.stage);
  const std::int64_t trainable = layout.trainable < 0 ? layout.elements : layout.trainable;
  const bool master = types.wide != types.compute;
  const auto term = [&](MemoryKind kind, Tier tier, std::int64_t each, std::int64_t elements,
                        bool whole) {
    return StateTerm{.kind = kind,
                     .tier = tier,
                     .each = each,
                     .elements = elements,
                     .ranks = layout.ranks,
                     .cut = !whole};
  };
  return {term(MemoryKind::kParameters, layout.parameters, types.compute, layout.elements,
               policy.whole_weights),
          term(MemoryKind::kGradients, layout.gradients, types.gradients, trainable,
               policy.whole_gradients),
          term(MemoryKind::kOptimizer, layout.optimizer,
               (types.moments + (master ? 1 : 0)) * types.wide, trainable, policy.whole_states)};
}

std::int64_t state_bytes(const std::vector<StateTerm>& terms, Tier tier) {
  std::int64_t bytes = 0;
  for (const StateTerm& term : terms)
    if (term.tier == tier) bytes += term.bytes();
  return bytes;
}

std::string state_formula(const std::vector<StateTerm>& terms, Tier tier) {
  return joined(sums_of(terms, tier));
}

std::string text_of(const StateTerm& term) {
  return term.each == 0 ? "0" : product(term.each, term.cut);
}

std::int64_t largest_model(std::int64_t bytes, StateLayout layout, const StateTypes& types) {
  layout.elements = layout.ranks;
  layout.trainable = -1;
  const std::int64_t each = state_bytes(state_terms(layout, types), Tier::kDevice);
  return each == 0 ? 0 : bytes / each * layout.ranks;
}

}  // namespace trireme
