#include "recipes/models/layer_list.h"

#include "framework/base/error.h"
#include "framework/comm/communicator.h"

namespace trireme {

std::vector<LayerSpec> layer_list(const ModelOptions& options) {
  check(options.layers > 0 && options.hidden > 0 && options.vocab > 0 && options.ffn > 0 &&
            options.sequence > 0,
        "model: layers, hidden, ffn, vocab and sequence must be at least 1; got ", options.layers,
        ", ", options.hidden, ", ", options.ffn, ", ", options.vocab, " and ", options.sequence);
  return options.family == Family::kDecoder ? decoder_layers(options) : mlp_layers(options);
}

std::int64_t logical_parameters(const ModelOptions& options,
                                const std::function<bool(const std::string&)>& counts) {
  const std::unique_ptr<Communicator> alone = make_self_communicator();
  BuildContext build{.tensor = {alone.get()}};
  std::int64_t total = 0;
  std::vector<ModulePtr> modules;
  std::vector<const Parameter*> seen;
  for (const LayerSpec& layer : layer_list(options)) {
    modules.push_back(layer.build(build));
    modules.back()->visit([&](Parameter& p) {
      for (const Parameter* other : seen)
        if (other == &p) return;
      seen.push_back(&p);
      if (counts && !counts(p.name())) return;
      for (const Section& section : p.spec().sections) total += section.logical.elements();
    });
  }
  return total;
}

double training_flops_per_sample(const ModelOptions& options, const std::vector<LayerSpec>& layers,
                                 const std::function<bool(const std::string&)>& frozen) {
  double flops = 0;
  for (const LayerSpec& layer : layers) flops += 3.0 * layer.forward_flops;
  if (!frozen) return flops;
  const auto multiplies = [&](const std::string& name) {
    if (name == "embedding.table") return options.tie_embeddings;
    return name.ends_with(".weight") && name.find("norm") == std::string::npos;
  };
  const std::int64_t weights = logical_parameters(
      options, [&](const std::string& name) { return frozen(name) && multiplies(name); });
  const std::int64_t rows = options.family == Family::kDecoder ? options.sequence : 1;
  return flops - 2.0 * static_cast<double>(rows * weights);
}

}  // namespace trireme
