#include "recipes/train/freezing.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "framework/base/error.h"
#include "framework/comm/communicator.h"
#include "recipes/cli/nearest.h"

namespace trireme {

namespace {

std::vector<std::string> items_of(const std::string& list) {
  std::vector<std::string> items;
  std::size_t begin = 0;
  while (begin <= list.size()) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    std::string item = list.substr(begin, end - begin);
    item.erase(0, item.find_first_not_of(' '));
    item.erase(item.find_last_not_of(' ') + 1);
    if (!item.empty()) items.push_back(item);
    begin = end + 1;
  }
  return items;
}

// A parameter, which may hold several logical tensors.
struct Declared {
  std::string parameter;
  std::vector<std::string> tensors;
};

// Of the whole model on one rank; declarations cost no memory.
std::vector<Declared> declared(ModelOptions model) {
  model.vocab = std::max<std::int64_t>(1, model.vocab);  // of data that is not known yet
  const std::unique_ptr<Communicator> alone = make_self_communicator();
  BuildContext build{.tensor = {alone.get()}};
  std::vector<Declared> all;
  std::vector<ModulePtr> modules;
  for (const LayerSpec& layer : layer_list(model)) {
    modules.push_back(layer.build(build));
    modules.back()->visit([&](Parameter& p) {
      Declared one{.parameter = p.name(), .tensors = {}};
      for (const Section& section : p.spec().sections) one.tensors.push_back(section.name);
      all.push_back(std::move(one));
    });
  }
  return all;
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return text;
}

// What was probably meant: the name nearest to the pattern, or a few that there are.
std::string advice(const std::string& pattern, const std::vector<std::string>& names) {
  const std::string near = nearest_word(pattern, names);
  if (!near.empty()) return "did you mean " + near + "?";
  std::vector<std::string> some;
  for (std::size_t i = 0; i < names.size() && i < 4; ++i) some.push_back(names[i]);
  return join("it has ", listed(some), names.size() > 4 ? ", ..." : "",
              "; trireme checkpoint inspect shows all of a run");
}

// Names among `names` that one of the patterns fits.
std::set<std::string> matched(const char* key, const std::string& patterns,
                              const std::vector<std::string>& names) {
  std::set<std::string> found;
  for (const std::string& pattern : items_of(patterns)) {
    const std::size_t before = found.size();
    bool any = false;
    for (const std::string& name : names)
      if (fnmatch(pattern.c_str(), name.c_str(), 0) == 0) {
        found.insert(name);
        any = true;
      }
    if (!any && found.size() == before)
      throw UsageError(join(key, " = ", patterns, ": no parameter of this model matches \"",
                            pattern, "\"; ", advice(pattern, names)));
  }
  return found;
}

std::set<std::string> frozen_tensors(const Recipe& r, const std::vector<std::string>& names) {
  std::set<std::string> frozen = matched("train.freeze", r.train.freeze, names);
  const std::set<std::string> only = matched("train.train_only", r.train.train_only, names);
  for (const std::string& name : names)
    if ((!only.empty() && !only.contains(name)) || (r.lora.rank > 0 && !is_adapter(name)))
      frozen.insert(name);
  return frozen;
}

}  // namespace

std::vector<LoraTarget> lora_targets(const ModelSection& model) {
  const bool gated = model.activation != "gelu";
  if (model.family == "gpt2") {
    LoraTarget up{"c_fc", {"mlp.up"}};
    if (gated) up.ours.push_back("mlp.gate");
    return {{"c_attn", {"attention.qkv"}}, {"c_proj", {"attention.output", "mlp.down"}}, up};
  }
  std::vector<LoraTarget> all{{"q_proj", {"attention.q"}},
                              {"k_proj", {"attention.k"}},
                              {"v_proj", {"attention.v"}},
                              {"o_proj", {"attention.output"}}};
  if (gated) all.push_back({"gate_proj", {"mlp.gate"}});
  all.push_back({"up_proj", {"mlp.up"}});
  all.push_back({"down_proj", {"mlp.down"}});
  return all;
}

std::vector<LoraTarget> chosen_targets(const Recipe& r) {
  const std::vector<LoraTarget> all = lora_targets(r.model);
  std::vector<LoraTarget> known = all, chosen;
  if (r.model.family == "gpt2") {
    known.push_back({"attn.c_proj", {"attention.output"}});
    known.push_back({"mlp.c_proj", {"mlp.down"}});
  }
  const std::vector<std::string> words = items_of(r.lora.targets);
  if (words == std::vector<std::string>{"all-linear"}) return all;
  for (const std::string& word : words) {
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](const LoraTarget& t) { return t.peft == word; });
    if (found == known.end()) {
      std::vector<std::string> names;
      for (const LoraTarget& target : known) names.push_back(target.peft);
      throw UsageError(join("lora.targets = ", r.lora.targets, ": model.family = ", r.model.family,
                            " has no linear \"", word, "\"; use all-linear, or some of ",
                            listed(names), ", with commas between them"));
    }
    chosen.push_back(*found);
  }
  if (chosen.empty())
    throw UsageError("lora.targets is empty; use all-linear, or names with commas between them");
  return chosen;
}

double lora_scale(const LoraSection& lora) {
  const auto rank = static_cast<double>(lora.rank);
  return lora.alpha / (lora.rslora ? std::sqrt(rank) : rank);
}

namespace {

// The smaller side of a linear: the rank that its whole matrix can have.
std::int64_t full_rank(const std::string& linear, const ModelSection& m) {
  const std::int64_t queries = m.heads * m.head_dim, keys = m.kv_heads * m.head_dim;
  if (linear.starts_with("mlp.")) return std::min(m.hidden, m.ffn);
  if (linear == "attention.k" || linear == "attention.v") return std::min(m.hidden, keys);
  return std::min(m.hidden, linear == "attention.qkv" ? queries + 2 * keys : queries);
}

// PEFT takes any rank. One above the full rank of some targets (keys of few heads) is taken here,
// too, so that one rank may serve all; one above that of each only costs.
void expect_useful_rank(const Recipe& r, const LoraOptions& options) {
  std::int64_t most = 0;
  for (const std::string& target : options.targets)
    most = std::max(most, full_rank(target, r.model));
  if (r.lora.rank > most)
    throw UsageError(join("lora.rank = ", r.lora.rank,
                          ": no linear of lora.targets = ", r.lora.targets, " has more than ", most,
                          " inputs and outputs, so a rank above ", most,
                          " learns nothing more; use 1 to ", most));
}

}  // namespace

LoraOptions lora_options(const Recipe& r) {
  if (r.lora.rank == 0) return {};
  LoraOptions options{.rank = r.lora.rank, .scale = lora_scale(r.lora)};
  for (const LoraTarget& target : chosen_targets(r))
    options.targets.insert(options.targets.end(), target.ours.begin(), target.ours.end());
  expect_useful_rank(r, options);
  return options;
}

std::function<bool(const std::string&)> frozen_parameters(const Recipe& r,
                                                          const ModelOptions& model) {
  if (r.lora.rank == 0 && r.train.freeze.empty() && r.train.train_only.empty()) return {};
  const std::vector<Declared> all = declared(model);
  std::vector<std::string> names;
  for (const Declared& one : all)
    for (const std::string& tensor : one.tensors)
      if (std::find(names.begin(), names.end(), tensor) == names.end()) names.push_back(tensor);
  const std::set<std::string> tensors = frozen_tensors(r, names);
  std::set<std::string> frozen;
  bool trains = false;
  for (const Declared& one : all) {
    const auto count = std::count_if(one.tensors.begin(), one.tensors.end(),
                                     [&](const std::string& t) { return tensors.contains(t); });
    const auto parts = static_cast<std::ptrdiff_t>(one.tensors.size());
    if (count != 0 && count != parts)
      throw UsageError(join(r.train.freeze.empty() ? "train.train_only = " + r.train.train_only
                                                   : "train.freeze = " + r.train.freeze,
                            ": ", listed(one.tensors),
                            " are one matrix here; freeze all of them, or none"));
    trains |= count == 0;
    if (count > 0) frozen.insert(one.parameter);
  }
  if (!trains)
    throw UsageError(join(r.train.freeze.empty() ? "train.train_only = " + r.train.train_only
                                                 : "train.freeze = " + r.train.freeze,
                          " leaves nothing to train; let a parameter be trained"));
  return [frozen = std::move(frozen)](const std::string& name) { return frozen.contains(name); };
}

}  // namespace trireme
