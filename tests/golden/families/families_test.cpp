// Every family of Hugging Face models against `transformers`: tiny random folders, made by
// tests/golden/huggingface/make_families.py, read as a user's would be. Logits after every prefix
// and loss within 1e-5, gradients within 1e-4 of a tensor's largest, greedy tokens equal; on every
// backend, serial and under layouts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"
#include "tests/golden/families/family.h"
#include "tests/parity/train_layout.h"
#include "tests/support/tensors.h"

namespace trireme::golden {
namespace {

using parity::Layout;
using parity::Logical;

std::vector<double> next(parity::Rank& rank, const Ids& ids) {
  return rank.engine.next_logits(ids);
}

void expect_logits(const Family& family, parity::Rank& rank, const std::vector<double>& expected,
                   double tolerance = 1e-5) {
  std::vector<double> all;
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
    ASSERT_NEAR(all[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
        << "row " << i / static_cast<std::size_t>(vocab);
}

// Between the largest two: what is a tie to rounding tells nothing.
double margin_of(std::vector<double> logits) {
  std::nth_element(logits.begin(), logits.begin() + 1, logits.end(), std::greater<>());
  return logits[0] - logits[1];
}

void expect_greedy(const Family& family, parity::Rank& rank) {
  Ids ids = family.greedy();
  for (std::size_t n = family.prompt(); n < ids.size(); ++n) {
    const std::vector<double> logits =
        next(rank, {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n)});
    if (logits.empty()) continue;
    EXPECT_EQ(std::max_element(logits.begin(), logits.end()) - logits.begin(), ids[n]);
    EXPECT_GT(margin_of(logits), 1e-3);
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
    rank.engine.kept().load_values(family.weights());
    if (layout.mesh.data == 1) {
      expect_logits(family, rank, family.expected("logits"));
      expect_greedy(family, rank);
    }
    const EngineStep result = rank.engine.train(0, family.source());
    gradients.add_gradients(rank);
    if (rank.first()) {
      EXPECT_NEAR(result.loss, family.loss(), 1e-5 * family.loss());
    }
  });
  expect_gradients(family, gradients.tensors());
}

TEST(Families, ReferenceBackend) {
  for (const std::string& name : families()) expect_family(name, {}, make_reference_backend);
}

TEST(Families, CpuBackend) {
  const BackendMaker cpu = cpu_backend_maker();
  if (!cpu) GTEST_SKIP() << "this build has no cpu backend";
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

// Five steps of AdamW, clipped, with decay of matrices, as torch takes them in f64; in f32 under
// two stages of three tensor ranks, each with a third of the heads and of the padded vocabulary.
TEST(Families, FiveStepsOfTraining) {
  for (const std::string& name : families()) {
    SCOPED_TRACE(name);
    const Family family(name);
    const parity::Task task{.model = family.model(),
                            .global_batch = std::ssize(family.samples()),
                            .label_smoothing = 0,
                            .lr_shape = LrShape::kConstant,
                            .compute = DType::kF32};
    parity::run_layout(task, {.mesh = {.pipeline = 2, .tensor = 3}}, [&](parity::Rank& rank) {
      rank.engine.kept().load_values(family.weights());
      for (int step = 0; step < 5; ++step)
        rank.engine.train(step, [&](std::int64_t first, std::int64_t count, Ids& ids, Ids& labels) {
          family.source()(first % task.global_batch, count, ids, labels);
        });
      expect_logits(family, rank, family.trained_logits(), 5e-5);
    });
  }
}

// Logits after the first sample, of a model whose options were changed.
std::vector<double> logits_of(const Family& family, const ModelOptions& model) {
  parity::Task task{.model = model, .global_batch = 2, .compute = DType::kF32};
  std::vector<double> logits;
  parity::run_layout(task, {}, [&](parity::Rank& rank) {
    rank.engine.kept().load_values(family.weights());
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
