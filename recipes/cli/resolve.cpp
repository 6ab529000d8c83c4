#include <algorithm>

#include "recipes/cli/validate.h"

namespace trireme {
namespace {

void resolve_model(ModelSection& model) {
  const bool llama = model.family == "llama";
  if (model.bias == "auto") model.bias = llama ? "none" : "all";
  if (model.norm == "auto") model.norm = llama ? "rms" : "layer";
  if (model.activation == "auto") model.activation = llama ? "swiglu" : "gelu";
  if (model.position == "auto") model.position = llama ? "rotary" : "learned";
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.head_dim == 0 && model.hidden % model.heads == 0)
    model.head_dim = model.hidden / model.heads;
  // A gated layer has three matrices instead of two: 8/3 keeps the number of weights.
  if (model.ffn == 0)
    model.ffn =
        model.activation == "gelu" ? 4 * model.hidden : (model.hidden * 8 / 3 + 63) / 64 * 64;
}

}  // namespace

void resolve(Recipe& recipe, std::optional<bool> under_launcher) {
  resolve_model(recipe.model);
  if (recipe.data.tokenizer == "auto") recipe.data.tokenizer = "bytes";
  if (recipe.pipeline.chunks == 0)
    recipe.pipeline.chunks = recipe.pipeline.schedule == "interleaved" ? 2 : 1;
  if (recipe.optimizer.decay == 0)
    recipe.optimizer.decay = std::max<std::int64_t>(1, recipe.train.steps / 10);
  if (recipe.parallel.launch == "auto")
    recipe.parallel.launch = under_launcher.value_or(false) ? "mpi" : "threads";
}

}  // namespace trireme
