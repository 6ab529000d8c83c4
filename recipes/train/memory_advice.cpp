#include "recipes/train/memory_advice.h"

#include "framework/base/error.h"

namespace trireme {

namespace {

// The next number of tensor ranks that the heads allow; 0 = none.
std::int64_t next_tensor(const Recipe& r) {
  const bool heads = r.model.family != "mlp";
  for (std::int64_t t = r.parallel.tensor + 1; t <= r.model.heads; ++t) {
    const bool kv = r.model.kv_heads % t == 0 || t % r.model.kv_heads == 0;
    if (r.model.ffn % t == 0 && (!heads || (r.model.heads % t == 0 && kv))) return t;
  }
  return 0;
}

std::string more_ranks(const Recipe& r) {
  const std::int64_t tensor = next_tensor(r), list = r.model.layers + 2;
  std::string text;
  if (r.parallel.pipeline * 2 * r.pipeline.chunks <= list)
    text = join("parallel.pipeline = ", r.parallel.pipeline * 2);
  if (tensor > 0) text += join(text.empty() ? "" : " or ", "parallel.tensor = ", tensor);
  return text.empty() ? "a smaller model" : text;
}

std::string sentence(const std::string& what, const std::string& change) {
  return join(what, " Try ", change, ", or a larger device.memory.");
}

}  // namespace

std::string advice_for_states(const Recipe& r) {
  return sentence("Weights, gradients and optimizer states alone do not fit.", more_ranks(r));
}

std::string advice_for_activations(const Recipe& r) {
  const std::string what = "Weights and states fit, the activations of a step do not.";
  if (r.batch.micro > 1)
    return sentence(what, join("batch.micro = ", r.batch.micro / 2, " (now ", r.batch.micro, ")"));
  if (r.recompute.mode != "full")
    return sentence(what, join("recompute.mode = full (now ", r.recompute.mode, ")"));
  if (r.parallel.pipeline > 1 && r.pipeline.schedule == "gpipe")
    return sentence(what, "pipeline.schedule = 1f1b (now gpipe)");
  return sentence(what, more_ranks(r));
}

}  // namespace trireme
