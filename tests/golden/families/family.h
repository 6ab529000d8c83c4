// A tiny random model folder of tests/golden/huggingface with what `transformers` says of it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/base/error.h"
#include "framework/base/json/json.h"
#include "framework/checkpoint/safetensors/safetensors_file.h"
#include "recipes/cli/parse.h"
#include "recipes/huggingface/folder.h"
#include "recipes/train/plan.h"

namespace trireme::golden {

using Ids = std::vector<std::int32_t>;
using BackendMaker = std::function<std::unique_ptr<Backend>(std::shared_ptr<MemoryLedger>)>;

// Empty where the build has no cpu backend.
inline BackendMaker cpu_backend_maker() {
  const BackendMaker cpu = [](std::shared_ptr<MemoryLedger> ledger) {
    return make_cpu_backend(std::move(ledger), 2);
  };
  try {
    cpu(std::make_shared<MemoryLedger>());
  } catch (const Error&) {
    return nullptr;
  }
  return cpu;
}

class Family {
 public:
  explicit Family(const std::string& name)
      : path_("tests/golden/huggingface/" + name),
        files_(real_files()),
        folder_(*files_, path_),
        expected_(*files_, path_ + "/expected.safetensors") {
    const std::string path = path_ + "/expected.json";
    const Json told = parse_json(read_whole(*files_, path, 1 << 20), path);
    for (const Json& sample : told.at("ids", path).array(path)) samples_.push_back(ids_of(sample));
    greedy_ = ids_of(told.at("greedy", path));
    prompt_ = static_cast<std::size_t>(told.at("prompt", path).number(path));
    loss_ = told.at("loss", path).number(path);
  }

  // The recipe's model, as config.json decides it.
  ModelOptions model() const {
    RecipeInput input;
    for (const auto& [key, value] : folder_.model().keys)
      input.flags.push_back({"model." + key, value});
    input.flags.push_back({"batch.sequence", std::to_string(samples_[0].size())});
    input.flags.push_back({"precision.compute", "f32"});
    return engine_options(parse_recipe(input)).model;
  }

  SectionSource weights() const {
    return [this](const Section& s, std::int64_t columns, std::span<double> rectangle) {
      folder_.read(
          s.name, s.logical,
          {.row = s.global_row, .column = s.global_column, .rows = s.rows, .columns = columns},
          DType::kF64, rectangle.data());
    };
  }

  SampleSource source() const {
    return [this](std::int64_t first, std::int64_t count, Ids& ids, Ids& labels) {
      ids.clear();
      labels.clear();
      for (std::int64_t s = first; s < first + count; ++s) {
        const Ids& sample = samples_[static_cast<std::size_t>(s)];
        ids.insert(ids.end(), sample.begin(), sample.end());
        labels.insert(labels.end(), sample.begin() + 1, sample.end());
        labels.push_back(-1);
      }
    };
  }

  std::vector<double> expected(const std::string& name) const { return kept(expected_, name); }
  // Logits after five steps of training.
  std::vector<double> trained_logits() const {
    return kept(SafetensorsFile(*files_, path_ + "/trained.safetensors"), "logits");
  }

  // Of a logical tensor: its part of the file's, in our orientation. Empty if it was not kept.
  std::vector<double> expected_gradient(const std::string& logical, std::size_t elements) const {
    const bool gpt2 = folder_.model().type == "gpt2";
    const auto place = hf_place(gpt2 ? HfNaming::kGpt2 : HfNaming::kLlama, logical);
    check(place.has_value(), "no place of ", logical);
    const std::vector<double> stored = expected(place->name);
    if (stored.empty()) return {};
    check(stored.size() == elements * static_cast<std::size_t>(place->parts), logical, " is of ",
          elements, " elements");
    std::vector<double> turned = stored;
    if (place->transposed) {  // (columns, rows) there
      const auto columns = static_cast<std::size_t>(expected_.find(place->name)->shape[0]);
      const std::size_t rows = stored.size() / columns;
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < columns; ++c) turned[r * columns + c] = stored[c * rows + r];
    }
    const auto begin = turned.begin() + static_cast<std::ptrdiff_t>(elements) * place->part;
    return {begin, begin + static_cast<std::ptrdiff_t>(elements)};
  }

  const std::string& path() const { return path_; }
  const std::vector<Ids>& samples() const { return samples_; }
  const Ids& greedy() const { return greedy_; }
  std::size_t prompt() const { return prompt_; }
  double loss() const { return loss_; }
  std::size_t kept() const { return expected_.tensors().size(); }

 private:
  static std::vector<double> kept(const SafetensorsFile& file, const std::string& name) {
    const SafeTensor* tensor = file.find(name);
    if (!tensor) return {};
    std::vector<float> values(static_cast<std::size_t>(tensor->elements()));
    file.read(*tensor, 0, tensor->bytes, values.data());
    return {values.begin(), values.end()};
  }

  static Ids ids_of(const Json& list) {
    Ids ids;
    for (const Json& id : list.array("ids"))
      ids.push_back(static_cast<std::int32_t>(id.number("id")));
    return ids;
  }

  std::string path_;
  std::unique_ptr<Files> files_;
  HfFolder folder_;
  SafetensorsFile expected_;
  std::vector<Ids> samples_;
  Ids greedy_;
  std::size_t prompt_ = 0;
  double loss_ = 0;
};

inline const std::vector<std::string>& families() {
  static const std::vector<std::string> all = {"gpt2",    "llama",   "llama2", "llama_linear",
                                               "smollm2", "mistral", "qwen2",  "qwen25",
                                               "qwen3",   "gemma"};
  return all;
}

}  // namespace trireme::golden
