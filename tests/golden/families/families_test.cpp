// Every family of Hugging Face models against `transformers`: tiny random folders, made by
// tests/golden/huggingface/make_families.py, read as a user's would be. Logits after every prefix
// and loss within 1e-5, gradients within 1e-4 of a tensor's largest, greedy tokens equal; on every
// backend, serial and under layouts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"
#include "framework/base/json/json.h"
#include "framework/checkpoint/safetensors/safetensors_file.h"
#include "recipes/cli/parse.h"
#include "recipes/huggingface/folder.h"
#include "recipes/train/plan.h"
#include "tests/parity/train_layout.h"
#include "tests/support/tensors.h"

namespace trireme::golden {
namespace {

using parity::Layout;
using parity::Logical;
using Ids = std::vector<std::int32_t>;

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

  std::vector<double> expected(const std::string& name) const {
    const SafeTensor* tensor = expected_.find(name);
    if (!tensor) return {};
    std::vector<float> values(static_cast<std::size_t>(tensor->elements()));
    expected_.read(*tensor, 0, tensor->bytes, values.data());
    return {values.begin(), values.end()};
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

  const std::vector<Ids>& samples() const { return samples_; }
  const Ids& greedy() const { return greedy_; }
  std::size_t prompt() const { return prompt_; }
  double loss() const { return loss_; }
  std::size_t kept() const { return expected_.tensors().size(); }

 private:
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

using BackendMaker = std::function<std::unique_ptr<Backend>(std::shared_ptr<MemoryLedger>)>;

std::vector<double> next(parity::Rank& rank, const Ids& ids) {
  return rank.engine.next_logits(ids);
}

void expect_logits(const Family& family, parity::Rank& rank) {
  std::vector<double> all, expected = family.expected("logits");
  const auto vocab = static_cast<std::ptrdiff_t>(rank.engine.options().model.vocab);
  bool here = true;
  for (const Ids& sample : family.samples())
    for (std::size_t n = 1; n <= sample.size(); ++n) {
      const std::vector<double> logits =
          next(rank, {sample.begin(), sample.begin() + static_cast<std::ptrdiff_t>(n)});
      here = here && !logits.empty();  // on the last stage
      if (here) all.insert(all.end(), logits.begin(), logits.begin() + vocab);
    }
  if (!here) return;
  ASSERT_EQ(all.size(), expected.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    ASSERT_NEAR(all[i], expected[i], 1e-5 * std::max(1.0, std::abs(expected[i])))
        << "row " << i / static_cast<std::size_t>(vocab);
}

void expect_greedy(const Family& family, parity::Rank& rank) {
  Ids ids = family.greedy();
  for (std::size_t n = family.prompt(); n < ids.size(); ++n) {
    const std::vector<double> logits =
        next(rank, {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n)});
    if (logits.empty()) continue;
    EXPECT_EQ(std::max_element(logits.begin(), logits.end()) - logits.begin(), ids[n]);
  }
}

void expect_gradients(const Family& family, const Logical& gradients) {
  std::size_t compared = 0;
  for (const auto& [name, values] : gradients) {
    const std::vector<double> expected = family.expected_gradient(name, values.size());
    if (expected.empty()) continue;
    ++compared;
    // A key's bias moves all scores of a query alike (but for rotation): rounding is all there is.
    const double least = name.ends_with("attention.k.bias") ? 1e-2 : 0;
    double largest = least;
    for (const double v : expected) largest = std::max(largest, std::abs(v));
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], expected[i], 1e-4 * largest) << name << " element " << i;
  }
  EXPECT_GE(compared, family.kept() - 1);  // all but the logits
}

void expect_family(const std::string& name, const Layout& layout, const BackendMaker& backend) {
  SCOPED_TRACE(name + ": " + text_of(layout));
  const Family family(name);
  parity::Task task{.model = family.model(),
                    .global_batch = std::ssize(family.samples()),
                    .label_smoothing = 0,
                    .compute = DType::kF32};
  task.backend = backend;
  parity::LogicalTensors gradients;
  parity::run_layout(task, layout, [&](parity::Rank& rank) {
    rank.engine.optimizer().load_values(family.weights());
    if (layout.mesh.data == 1) {
      expect_logits(family, rank);
      expect_greedy(family, rank);
    }
    const EngineStep result = rank.engine.train(0, family.source());
    gradients.add_gradients(rank);
    if (rank.first()) EXPECT_NEAR(result.loss, family.loss(), 1e-5 * family.loss());
  });
  expect_gradients(family, gradients.tensors());
}

const std::vector<std::string>& families() {
  static const std::vector<std::string> all = {"gpt2",  "llama", "llama_linear", "mistral",
                                               "qwen2", "qwen3", "gemma"};
  return all;
}

TEST(Families, ReferenceBackend) {
  for (const std::string& name : families()) expect_family(name, {}, make_reference_backend);
}

TEST(Families, CpuBackend) {
  const BackendMaker cpu = [](std::shared_ptr<MemoryLedger> ledger) {
    return make_cpu_backend(std::move(ledger), 2);
  };
  try {
    cpu(std::make_shared<MemoryLedger>());
  } catch (const Error&) {
    GTEST_SKIP() << "this build has no cpu backend";
  }
  for (const std::string& name : families()) expect_family(name, {}, cpu);
}

// One key/value head on three tensor ranks is replicated.
TEST(Families, Layouts) {
  const Layout tensor{.mesh = {.tensor = 3}, .micro = 2};
  const Layout stages{.mesh = {.data = 2, .pipeline = 2}, .recompute = RecomputeMode::kFull};
  for (const std::string& name : families()) {
    expect_family(name, tensor, make_reference_backend);
    expect_family(name, stages, make_reference_backend);
  }
}

// Logits after the first sample, of a model whose options were changed.
std::vector<double> logits_of(const Family& family, const ModelOptions& model) {
  parity::Task task{.model = model, .global_batch = 2, .compute = DType::kF32};
  std::vector<double> logits;
  parity::run_layout(task, {}, [&](parity::Rank& rank) {
    rank.engine.optimizer().load_values(family.weights());
    logits = rank.engine.next_logits(family.samples()[0]);
  });
  return logits;
}

// A switch that was ignored could not pass above: each moves the logits by far more.
TEST(Families, EverySwitchMatters) {
  using Change = std::function<void(ModelOptions&)>;
  const std::vector<std::pair<std::string, Change>> changes = {
      {"gpt2", [](ModelOptions& o) { o.norm_eps = 1e-2; }},
      {"llama", [](ModelOptions& o) { o.rope_scaling = {}; }},
      {"llama", [](ModelOptions& o) { o.rope_theta = 500; }},
      {"llama_linear", [](ModelOptions& o) { o.rope_scaling = {}; }},
      {"mistral", [](ModelOptions& o) { o.window = 0; }},
      {"mistral", [](ModelOptions& o) { o.window = 5; }},
      {"qwen2", [](ModelOptions& o) { o.qkv_bias = false; }},
      {"qwen3", [](ModelOptions& o) { o.qk_norm = false; }},
      {"gemma", [](ModelOptions& o) { o.norm = NormKind::kRmsNorm; }},
      {"gemma", [](ModelOptions& o) { o.scale_embeddings = false; }},
      {"gemma", [](ModelOptions& o) { o.activation = Activation::kSilu; }}};
  for (const auto& [name, change] : changes) {
    const Family family(name);
    ModelOptions model = family.model();
    const std::vector<double> right = logits_of(family, model);
    change(model);
    const std::vector<double> other = logits_of(family, model);
    double most = 0;
    for (std::size_t i = 0; i < right.size(); ++i)
      most = std::max(most, std::abs(right[i] - other[i]));
    EXPECT_GT(most, 1e-3) << name;
  }
}

}  // namespace
}  // namespace trireme::golden
