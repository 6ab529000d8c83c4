#include "tests/golden/golden_file.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "framework/base/error.h"

namespace trireme::golden {

namespace {

using nlohmann::json;

ModelOptions model_of(const json& c) {
  ModelOptions o{.layers = c["layers"],
                 .hidden = c["hidden"],
                 .ffn = c["ffn"],
                 .vocab = c["vocab"],
                 .sequence = c["sequence"],
                 .tie_embeddings = c["tie_embeddings"]};
  if (c["family"] == "mlp") {
    o.family = Family::kMlp;
    return o;
  }
  o.heads = c["heads"];
  o.kv_heads = c["kv_heads"];
  o.head_dim = c["head_dim"];
  o.norm_eps = c["norm_eps"];
  if (c["family"] == "llama") {
    o.norm = NormKind::kRmsNorm;
    o.activation = Activation::kSilu;
    o.gated = true;
    o.bias = false;
    o.rotary = true;
    o.rope_theta = c["rope_theta"];
  }
  return o;
}

parity::Task task_of(const json& c) {
  return {.model = model_of(c),
          .global_batch = c["samples"],
          .steps = c["steps"],
          .label_smoothing = c["label_smoothing"],
          .optimizer = {.beta1 = c["beta1"],
                        .beta2 = c["beta2"],
                        .eps = c["eps"],
                        .weight_decay = c["weight_decay"]},
          .lr_shape = LrShape::kConstant,
          .lr = c["lr"],
          .clip = c["clip"]};
}

// The parts that a fused tensor's rows hold, in order: name and rows.
std::vector<std::pair<std::string, std::int64_t>> parts_of(const std::string& name,
                                                           std::int64_t rows,
                                                           const ModelOptions& o) {
  const auto renamed = [&](const std::string& from, const std::string& to) {
    return std::string(name).replace(name.find(from), from.size(), to);
  };
  if (name.find("attention.qkv.") != std::string::npos)
    return {{renamed(".qkv.", ".q."), o.heads * o.head_dim},
            {renamed(".qkv.", ".k."), o.kv_heads * o.head_dim},
            {renamed(".qkv.", ".v."), o.kv_heads * o.head_dim}};
  if (o.gated && name.find("mlp.up.") != std::string::npos)
    return {{renamed(".up.", ".gate."), o.ffn}, {name, o.ffn}};
  return {{name, rows}};
}

parity::Logical tensors_of(const json& dump, const ModelOptions& o) {
  parity::Logical tensors;
  for (const auto& [name, tensor] : dump.items()) {
    const auto data = tensor["data"].get<std::vector<double>>();
    const std::int64_t rows = tensor["shape"][0];
    const auto columns = static_cast<std::int64_t>(data.size()) / rows;
    auto at = data.begin();
    for (const auto& [part, part_rows] : parts_of(name, rows, o)) {
      tensors[part] = std::vector<double>(at, at + part_rows * columns);
      at += part_rows * columns;
    }
    check(at == data.end(), "golden: the parts of ", name, " do not cover it");
  }
  return tensors;
}

}  // namespace

Golden read_golden(const std::string& name) {
  std::ifstream file("tests/golden/" + name + ".json");
  check(file.good(), "tests/golden/", name, ".json cannot be read from here");
  const json g = json::parse(file);
  Golden golden{.task = task_of(g["config"]), .losses = g["losses"], .norms = g["grad_norms"]};
  const ModelOptions& model = golden.task.model;
  golden.weights = tensors_of(g["weights"], model);
  golden.gradients = tensors_of(g["grads"], model);
  golden.after = tensors_of(g["after"], model);
  const auto fill = [ids = g["ids"].get<std::vector<std::vector<std::int32_t>>>(),
                     labels = g["labels"].get<std::vector<std::vector<std::int32_t>>>()](
                        std::int64_t first, std::int64_t count, std::vector<std::int32_t>& to_ids,
                        std::vector<std::int32_t>& to_labels) {
    to_ids.clear();
    to_labels.clear();
    for (std::int64_t s = first; s < first + count; ++s) {
      const auto at = static_cast<std::size_t>(s) % ids.size();
      to_ids.insert(to_ids.end(), ids[at].begin(), ids[at].end());
      to_labels.insert(to_labels.end(), labels[at].begin(), labels[at].end());
    }
  };
  golden.samples = fill;
  if (!g.contains("starts")) return golden;
  golden.task.documents = true;
  const auto starts = [all = g["starts"].get<std::vector<std::vector<std::int32_t>>>()](
                          std::int64_t first, std::int64_t count, std::vector<std::int32_t>& to) {
    to.clear();
    for (std::int64_t s = first; s < first + count; ++s) {
      const auto& of = all[static_cast<std::size_t>(s) % all.size()];
      to.insert(to.end(), of.begin(), of.end());
    }
  };
  golden.samples = {fill, starts};
  return golden;
}

Golden read_lora_golden(const std::string& name) {
  Golden golden = read_golden(name);
  std::ifstream file("tests/golden/lora_" + name + ".json");
  check(file.good(), "tests/golden/lora_", name, ".json cannot be read from here");
  const json g = json::parse(file);
  const json& c = g["config"];
  const double rank = c["r"], alpha = c["lora_alpha"];
  LoraOptions lora{.rank = c["r"],
                   .scale = alpha / (c["use_rslora"].get<bool>() ? std::sqrt(rank) : rank)};
  const std::map<std::string, std::vector<std::string>> ours{
      {"q_proj", {"attention.q"}},
      {"v_proj", {"attention.v"}},
      {"o_proj", {"attention.output"}},
      {"gate_proj", {"mlp.gate"}},
      {"up_proj", {"mlp.up"}},
      {"down_proj", {"mlp.down"}},
      {"c_attn", {"attention.qkv"}},
      {"c_fc", {"mlp.up"}},
      {"c_proj", {"attention.output", "mlp.down"}}};
  for (const std::string target : c["targets"])
    lora.targets.insert(lora.targets.end(), ours.at(target).begin(), ours.at(target).end());
  golden.task.model.lora = lora;
  golden.task.frozen = [](const std::string& parameter) { return !is_adapter(parameter); };
  const auto plain = [](const json& dump) {
    parity::Logical tensors;
    for (const auto& [tensor, values] : dump.items())
      tensors[tensor] = values["data"].get<std::vector<double>>();
    return tensors;
  };
  golden.weights.merge(plain(g["weights"]));
  golden.gradients = plain(g["grads"]);
  golden.after = plain(g["after"]);
  golden.losses = g["losses"].get<std::vector<double>>();
  golden.norms = g["grad_norms"].get<std::vector<double>>();
  return golden;
}

}  // namespace trireme::golden
