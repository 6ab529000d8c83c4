// Adapters under every layout train like the serial run (f64, 1e-12); they begin as the base, bit
// for bit, and added into its weights they give what they gave beside them.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/base/error.h"
#include "tests/parity/train_layout.h"

namespace trireme::parity {
namespace {

constexpr double kTolerance = 1e-12;
const std::vector<std::string> kAll{"attention.q", "attention.k", "attention.v", "attention.output",
                                    "mlp.gate",    "mlp.up",      "mlp.down"};

Task lora_task(ModelOptions model, std::vector<std::string> targets, std::int64_t rank = 2) {
  Task task{.model = std::move(model), .steps = 3};
  task.model.lora = {.rank = rank, .scale = 1.5, .targets = std::move(targets)};
  task.frozen = [](const std::string& name) { return !is_adapter(name); };
  task.lr = 5e-2;
  return task;
}

Task gpt2_task() {
  return lora_task(tiny_gpt2(), {"attention.qkv", "attention.output", "mlp.up", "mlp.down"});
}

void expect_like(const Task& task, const Curve& serial, const Layout& layout) {
  SCOPED_TRACE(text_of(layout));
  const Curve curve = train(task, layout);
  EXPECT_LE(distance(serial, curve), kTolerance);
  EXPECT_LE(distance(serial.weights, curve.weights), kTolerance);
}

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> kLayouts{
      {.mesh = {.data = 2}, .zero_stage = 1},
      {.mesh = {.data = 2, .tensor = 2}, .micro = 2, .sequence_parallel = true, .zero_stage = 2},
      {.mesh = {.tensor = 4}, .micro = 3, .recompute = RecomputeMode::kFull, .recompute_every = 2},
      {.mesh = {.data = 2, .pipeline = 2},
       .schedule = ScheduleKind::kZeroBubbleH1,
       .recompute = RecomputeMode::kSelective,
       .zero_stage = 3},
      {.mesh = {.data = 2, .pipeline = 2, .tensor = 2},
       .micro = 2,
       .sequence_parallel = true,
       .recompute = RecomputeMode::kSelective,
       .zero_stage = 3},
      {.mesh = {.data = 2},
       .recompute = RecomputeMode::kFull,
       .zero_stage = 3,
       .offload = {.optimizer = Tier::kDisk,
                   .gradients = Tier::kHost,
                   .parameters = Tier::kDisk,
                   .activations = Tier::kHost,
                   .tile = 97}},
      {.mesh = {.pipeline = 3}, .schedule = ScheduleKind::kInterleaved, .chunks = 2, .micro = 4}};
  return kLayouts;
}

void expect_everywhere(const Task& task) {
  const Curve serial = train(task, {.micro = task.global_batch});
  EXPECT_NE(serial.losses.back(), serial.losses.front());
  for (const Layout& layout : layouts()) expect_like(task, serial, layout);
}

TEST(ParityLora, OneAdapterOfAllProjections) { expect_everywhere(gpt2_task()); }

TEST(ParityLora, AnAdapterOfEachProjection) { expect_everywhere(lora_task(tiny_llama(2), kAll)); }

// Key heads that tensor ranks repeat, norms of heads, biases of queries and keys; some adapted.
TEST(ParityLora, SomeProjectionsAndRepeatedHeads) {
  expect_everywhere(lora_task(tiny_qwen(1), {"attention.q", "attention.v", "mlp.up"}, 3));
  expect_everywhere(lora_task(tiny_llama(1), {"attention.k", "attention.output"}, 1));
}

// Only what is asked for moves.
TEST(ParityLora, TheBaseStaysAsItIs) {
  const Task task = lora_task(tiny_llama(2), kAll);
  LogicalTensors before, after;
  run_layout(task, {.mesh = {.data = 2}, .zero_stage = 2}, [&](Rank& rank) {
    before.add_weights(rank);
    rank.mesh.world().barrier();
    for (int step = 0; step < 3; ++step)
      rank.engine.train(step, random_samples(task.model, task.seed));
    after.add_weights(rank);
  });
  int moved = 0;
  for (const auto& [name, values] : before.tensors()) {
    const bool same = values == after.tensors().at(name);
    EXPECT_EQ(same, !is_adapter(name)) << name;
    moved += same ? 0 : 1;
  }
  EXPECT_EQ(moved, 4 * 7 * 2);
}

std::vector<double> logits_of(const Task& task, const Layout& layout, const Logical& weights) {
  std::vector<double> logits;
  run_layout(task, layout, [&](Rank& rank) {
    rank.engine.kept().load_values(source_of(weights));
    const std::vector<double> own = rank.engine.next_logits({1, 5, 2, 7, 3});
    if (rank.first()) logits = own;
  });
  return logits;
}

// W + scale * B A, in place of W with an adapter beside it.
Logical merged(const Task& task, const Logical& weights) {
  Logical result;
  for (const auto& [name, values] : weights)
    if (!is_adapter(name)) result[name] = values;
  const std::int64_t r = task.model.lora.rank;
  for (auto& [name, values] : result) {
    const std::string stem = name.substr(0, name.rfind('.'));
    const auto b = weights.find(lora_b_name(stem));
    if (b == weights.end() || !name.ends_with(".weight")) continue;
    auto a = weights.find(lora_a_name(stem));
    if (a == weights.end()) a = weights.find(lora_a_name(stem.substr(0, stem.rfind('.')) + ".qkv"));
    const auto columns = static_cast<std::int64_t>(a->second.size()) / r;
    for (std::size_t at = 0; at < values.size(); ++at) {
      const auto i = static_cast<std::int64_t>(at) / columns,
                 j = static_cast<std::int64_t>(at) % columns;
      for (std::int64_t k = 0; k < r; ++k)
        values[at] += task.model.lora.scale * b->second[static_cast<std::size_t>(i * r + k)] *
                      a->second[static_cast<std::size_t>(k * columns + j)];
    }
  }
  return result;
}

// Row 38 of the inference list: merged = unmerged, whichever ranks hold it.
TEST(ParityLora, MergedWeightsGiveTheSameLogits) {
  for (const Task& task : {gpt2_task(), lora_task(tiny_llama(2), kAll)}) {
    Curve curve = train(task, {.micro = 12});
    Task plain = task;
    plain.model.lora = {};
    plain.frozen = {};
    const std::vector<double> expected = logits_of(plain, {}, merged(task, curve.weights));
    for (const int tensor : {1, 2, 4}) {
      const std::vector<double> got = logits_of(task, {.mesh = {.tensor = tensor}}, curve.weights);
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12);
    }
    Logical base = curve.weights;
    for (auto& [name, values] : base)
      if (name.ends_with(".lora_B.weight")) std::fill(values.begin(), values.end(), 0.0);
    EXPECT_EQ(logits_of(task, {}, base), logits_of(plain, {}, base));
    EXPECT_NE(logits_of(task, {}, base), expected);
  }
}

TEST(ParityLora, BeforeTheFirstStepItIsTheBase) {
  for (const DType compute : {DType::kF64, DType::kBF16}) {
    Task task = lora_task(tiny_llama(2), kAll, 8);
    task.compute = compute;
    Task plain = task;
    plain.model.lora = {};
    plain.frozen = {};
    std::vector<double> with, without;
    const auto look = [](const Task& t, std::vector<double>& to) {
      run_layout(t, {}, [&](Rank& rank) { to = rank.engine.next_logits({3, 1, 2}); });
    };
    look(task, with);
    look(plain, without);
    EXPECT_EQ(with, without);
  }
}

// Half of an adapter, or of a norm, trains alone.
TEST(ParityLora, HalvesThatAreFrozen) {
  for (const std::string part : {"lora_A", "lora_B"}) {
    Task task = lora_task(tiny_llama(2), kAll);
    task.frozen = [part](const std::string& name) {
      return !is_adapter(name) || (name.starts_with("layers.1") && name.find(part) != name.npos);
    };
    const Curve serial = train(task, {.micro = 12});
    expect_like(task, serial,
                {.mesh = {.data = 2, .tensor = 2}, .sequence_parallel = true, .zero_stage = 2});
  }
  for (const std::string part : {"norm1.weight", "norm1.bias"}) {
    Task task{.model = tiny_gpt2(), .steps = 2};
    task.frozen = [part](const std::string& name) { return name.ends_with(part); };
    const Curve serial = train(task, {.micro = 12});
    expect_like(task, serial, {.mesh = {.data = 2, .pipeline = 2}, .zero_stage = 2});
  }
}

}  // namespace
}  // namespace trireme::parity
