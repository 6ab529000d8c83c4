// The published list beside real uses of each entry: every allocation of activations, in order,
// with the bytes then in use; the peak; what is held after it. Exact.
#include "recipes/memory/layer_memory.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "tests/parity/train_layout.h"
#include "tests/recipes/memory/layer_run.h"

namespace trireme::test {
namespace {

using parity::tiny_gemma;
using parity::tiny_gpt2;
using parity::tiny_llama;
using parity::tiny_mlp;
using parity::tiny_qwen;

// No two sizes are equal, so that no letter of a formula can stand for another.
ModelOptions odd_decoder() {
  ModelOptions o = tiny_gpt2();
  o.hidden = 20;
  o.head_dim = 6;
  o.kv_heads = 2;
  o.ffn = 28;
  o.vocab = 37;
  o.gated = true;
  o.rotary = true;
  o.tie_embeddings = false;
  return o;
}

ModelOptions gated_mlp() {
  ModelOptions o = tiny_mlp();
  o.hidden = 6;
  o.ffn = 20;
  o.gated = true;
  return o;
}

::testing::AssertionResult same(const char* pass, const Trail& real, const Trail& list) {
  if (real.peak != list.peak || real.held != list.held)
    return ::testing::AssertionFailure()
           << pass << ": peak " << real.peak << " and held " << real.held << " measured, "
           << list.peak << " and " << list.held << " listed";
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult same_order(const char* pass, const Trail& real, const Trail& list) {
  for (std::size_t i = 0; i < std::max(real.taken.size(), list.taken.size()); ++i) {
    const Taken none{-1, -1};
    const Taken a = i < real.taken.size() ? real.taken[i] : none;
    const Taken b = i < list.taken.size() ? list.taken[i] : none;
    if (a != b)
      return ::testing::AssertionFailure()
             << pass << ": allocation " << i << " is of " << a.bytes << " bytes with " << a.in_use
             << " in use, listed " << b.bytes << " with " << b.in_use;
  }
  return same(pass, real, list);
}

void expect_exact(const LayerCase& layer) {
  SCOPED_TRACE(text_of(layer));
  const Trails list = listed_trails(layer);
  for (const Trails& real : real_trails(layer)) {
    EXPECT_TRUE(same_order("forward", real.forward, list.forward));
    EXPECT_TRUE(same_order("backward", real.backward, list.backward));
    EXPECT_TRUE(same_order("inference", real.inference, list.inference));
    EXPECT_TRUE(same_order("B", real.backward_input, list.backward_input));
    EXPECT_TRUE(same_order("W", real.backward_weight, list.backward_weight));
  }
}

void expect_same_peaks(const LayerCase& layer, const BackendMaker& maker) {
  SCOPED_TRACE(text_of(layer));
  const Trails list = listed_trails(layer);
  for (const Trails& real : real_trails(layer, maker)) {
    EXPECT_TRUE(same("forward", real.forward, list.forward));
    EXPECT_TRUE(same("backward", real.backward, list.backward));
    EXPECT_TRUE(same("inference", real.inference, list.inference));
    EXPECT_TRUE(same("B", real.backward_input, list.backward_input));
    EXPECT_TRUE(same("W", real.backward_weight, list.backward_weight));
  }
}

using CaseFn = std::function<void(const LayerCase&)>;

// The kinds of entries: embedding, first and second block, head.
void for_entries(LayerCase layer, const CaseFn& fn) {
  for (int entry : {0, 1, 2, static_cast<int>(layer.model.layers) + 1}) {
    const bool mlp = layer.model.family == Family::kMlp;
    if (!mlp && entry == 2) continue;  // the same as the first
    layer.entry = entry;
    layer.use.first_block = mlp && entry == 1;
    layer.use.narrow_gradient = false;
    fn(layer);
    const bool mixed = layer.use.compute != accumulation_type(layer.use.compute);
    if (!mlp || !mixed || entry > layer.model.layers) continue;
    layer.use.narrow_gradient = true;
    fn(layer);
  }
}

void for_uses(ModelOptions model, DType compute, std::int64_t samples, const CaseFn& fn) {
  for (int tensor : {1, 2, 4})
    for (int flags = 0; flags < 8; ++flags) {
      const LayerUse use{.samples = samples,
                         .tensor = tensor,
                         .sequence_parallel = (flags & 1) != 0,
                         .compute = compute,
                         .selective = (flags & 2) != 0,
                         .dropout = (flags & 4) != 0};
      if (use.sequence_parallel && model.family == Family::kMlp) continue;
      model.dropout = use.dropout ? 0.25 : 0;
      for_entries({.model = model, .use = use}, fn);
    }
}

class LayerMemoryTypes : public ::testing::TestWithParam<DType> {};
TEST_P(LayerMemoryTypes, EveryAllocationOfTheDecoders) {
  for (const ModelOptions& model :
       {tiny_gpt2(), odd_decoder(), tiny_llama(1), tiny_qwen(2), tiny_gemma()})
    for (std::int64_t samples : {1, 3}) for_uses(model, GetParam(), samples, expect_exact);
}
TEST_P(LayerMemoryTypes, EveryAllocationOfTheMlp) {
  for (const ModelOptions& model : {tiny_mlp(), gated_mlp()})
    for (std::int64_t samples : {1, 3}) for_uses(model, GetParam(), samples, expect_exact);
}
INSTANTIATE_TEST_SUITE_P(LayerMemory, LayerMemoryTypes,
                         ::testing::Values(DType::kF64, DType::kF32, DType::kBF16, DType::kF16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

// More rows than a chunk of the loss, the last one smaller.
TEST(LayerMemory, ChunksOfTheLoss) {
  ModelOptions model = odd_decoder();
  model.sequence = 200;
  for (DType compute : {DType::kF32, DType::kBF16})
    for (bool sequence_parallel : {false, true})
      expect_same_peaks({.model = model,
                         .entry = static_cast<int>(model.layers) + 1,
                         .use = {.samples = 3,
                                 .tensor = 2,
                                 .sequence_parallel = sequence_parallel,
                                 .compute = compute}},
                        make_reference_backend);
}

TEST(LayerMemory, TheCpuBackendTakesTheSame) {
  const BackendMaker cpu = [](std::shared_ptr<MemoryLedger> ledger) {
    return make_cpu_backend(std::move(ledger), 1);
  };
  bool bf16 = false;
  try {
    bf16 = cpu(std::make_shared<MemoryLedger>())->computes(DType::kBF16);
  } catch (const Error&) {
    GTEST_SKIP() << "this build has no cpu backend";
  }
  for (DType compute : {DType::kF32, DType::kBF16}) {
    if (compute == DType::kBF16 && !bf16) continue;  // not computed on this machine
    for (const ModelOptions& model : {tiny_gpt2(), tiny_llama(2), tiny_qwen(1), tiny_mlp()})
      for_uses(model, compute, 2, [&](const LayerCase& layer) { expect_same_peaks(layer, cpu); });
  }
}

TEST(LayerMemory, FormulasInTheLegendsLetters) {
  const LayerMemory block =
      layer_memory(tiny_gpt2(), EntryKind::kBlock, {.samples = 2, .compute = DType::kBF16});
  std::vector<std::string> kept;
  std::int64_t bytes = 0;
  for (const MemoryStep& step : block.forward) {
    if (step.take) kept.push_back(step.tensor + " = " + step.formula);
    bytes += step.take ? step.bytes : -step.bytes;
    if (!step.take)
      std::erase_if(kept, [&](const std::string& k) { return k.starts_with(step.tensor + " ="); });
  }
  EXPECT_EQ(kept, (std::vector<std::string>{
                      "norm1 output = R C c", "norm1 statistics = R 2 w", "qkv = R (H + 2 G) D c",
                      "attention output = R H D c", "log-sum-exp = R H w", "middle = R C w",
                      "norm2 output = R C c", "norm2 statistics = R 2 w", "up output = R F c",
                      "activation output = R F c", "output = R C w"}));
  const std::int64_t R = 16, C = 16, F = 64, H = 4;
  EXPECT_EQ(bytes, R * ((2 * C + 3 * C + C + 2 * F) * 2 + (2 * 2 + H + 2 * C) * 4));
}

TEST(LayerMemory, ExplainedAsATable) {
  const ModelOptions model = tiny_gpt2();
  const std::string block =
      explain(layer_memory(model, EntryKind::kBlock, {.samples = 2, .compute = DType::kBF16}));
  for (const char* line : {"  qkv                R (H + 2 G) D c   1,536       kept\n",
                           "  input gradient              as middle gradient   1,024  handed on\n",
                           "  in use before it                                 9,728\n",
                           "  in use at most                                  12,288\n"})
    EXPECT_NE(block.find(line), std::string::npos) << line << "in\n" << block;
  EXPECT_NE(explain(layer_memory(model, EntryKind::kHead, {})).find("logits"), std::string::npos);
}

TEST(LayerMemory, RefusesWhatCannotBeCut) {
  EXPECT_THROW(layer_memory(tiny_gpt2(), EntryKind::kBlock, {.tensor = 3}), Error);
  EXPECT_THROW(layer_memory(tiny_gpt2(), EntryKind::kHead, {.samples = 0}), Error);
  EXPECT_THROW(
      layer_memory(tiny_mlp(), EntryKind::kBlock, {.tensor = 2, .sequence_parallel = true}), Error);
}

}  // namespace
}  // namespace trireme::test
