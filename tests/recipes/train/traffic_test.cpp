// What ranks send equals the formulas made from action list and list of layers, byte for byte.
#include <gtest/gtest.h>

#include <mutex>

#include "framework/base/error.h"
#include "recipes/train/traffic_formula.h"
#include "tests/parity/train_layout.h"

namespace trireme {
namespace {

using namespace parity;
using Kind = ScheduleKind;

constexpr int kSteps = 2;

// Differences between counted and computed bytes of all ranks, one a line; empty = none.
std::string differences(const Task& task, const Layout& layout) {
  std::mutex mutex;
  std::string text;
  const SampleSource source = random_samples(task.model, task.seed);
  run_layout(task, layout, [&](Rank& rank) {
    Communicator& world = rank.mesh.world();
    world.reset_traffic();
    std::int64_t applied = 0;
    for (int step = 0; step < kSteps; ++step)
      applied += rank.engine.train(step, source).optimizer.skipped ? 0 : 1;
    std::map<std::string, std::int64_t> gaps;
    for (const auto& [operation, entry] : world.traffic()) gaps[operation] += entry.bytes;
    for (const auto& [operation, bytes] : traffic_formulas(rank.mesh, rank.engine, kSteps, applied))
      gaps[operation] -= bytes;
    std::scoped_lock lock(mutex);
    for (const auto& [operation, gap] : gaps)
      if (gap != 0)
        text += join(rank_prefix(rank.mesh.shape(), world.rank()), operation, " counted ",
                     world.traffic().contains(operation) ? world.traffic().at(operation).bytes : 0,
                     ", ", gap, " more than the formula\n");
  });
  return text;
}

void expect_exact(const Task& task, const Layout& layout) {
  const std::string gaps = differences(task, layout);
  EXPECT_TRUE(gaps.empty()) << text_of(layout) << "\n" << gaps;
}

std::vector<ModelOptions> families() {
  ModelOptions untied = tiny_gpt2();
  untied.tie_embeddings = false;
  return {tiny_gpt2(), untied,       tiny_llama(4), tiny_llama(1),
          tiny_mlp(),  tiny_qwen(1), tiny_gemma()};
}

TEST(Traffic, EveryFamilyOverEveryAxis) {
  for (const ModelOptions& model : families())
    for (const MeshShape mesh : {MeshShape{1, 1, 1}, MeshShape{2, 1, 1}, MeshShape{1, 2, 1},
                                 MeshShape{1, 1, 2}, MeshShape{3, 1, 2}, MeshShape{2, 2, 2}})
      for (const DType compute : {DType::kF64, DType::kF32})
        expect_exact({.model = model, .compute = compute}, {.mesh = mesh, .micro = 2});
}

TEST(Traffic, SequenceParallelUnderEveryRecomputation) {
  for (const ModelOptions& model : {tiny_gpt2(), tiny_llama(2), tiny_qwen(2)})
    for (const bool sequence : {false, true})
      for (const RecomputeMode mode :
           {RecomputeMode::kNone, RecomputeMode::kFull, RecomputeMode::kSelective})
        for (const std::int64_t every : {1, 3})
          expect_exact({.model = model}, {.mesh = {.data = 1, .pipeline = 2, .tensor = 4},
                                          .micro = 4,
                                          .sequence_parallel = sequence,
                                          .recompute = mode,
                                          .recompute_every = every});
}

TEST(Traffic, EverySchedule) {
  for (const ModelOptions& model : {tiny_gpt2(), tiny_llama(1)})
    for (const Kind kind : {Kind::kGPipe, Kind::kOneFOneB, Kind::kInterleaved, Kind::kZeroBubbleH1})
      for (const bool sequence : {false, true})
        expect_exact({.model = model, .global_batch = 8},
                     {.mesh = {.data = 1, .pipeline = 2, .tensor = 2},
                      .schedule = kind,
                      .chunks = kind == Kind::kInterleaved ? 2 : 1,
                      .sequence_parallel = sequence,
                      .recompute = sequence ? RecomputeMode::kFull : RecomputeMode::kNone});
}

// Stage 1: reduce-scatter and all-gather; 2: a reduce-scatter each micro-batch; 3: a gather each
// use besides.
TEST(Traffic, EveryZeroStage) {
  for (const ModelOptions& model : {tiny_gpt2(), tiny_mlp()})
    for (const int stage : {1, 2, 3})
      for (const Kind kind :
           {Kind::kGPipe, Kind::kOneFOneB, Kind::kInterleaved, Kind::kZeroBubbleH1})
        for (const RecomputeMode mode :
             {RecomputeMode::kNone, RecomputeMode::kFull, RecomputeMode::kSelective})
          for (const MeshShape mesh : {MeshShape{2, 1, 1}, MeshShape{2, 2, 1}, MeshShape{3, 1, 2}})
            expect_exact({.model = model}, {.mesh = mesh,
                                            .schedule = kind,
                                            .chunks = kind == Kind::kInterleaved ? 2 : 1,
                                            .micro = mesh.data == 3 ? 3 : 1,
                                            .recompute = mode,
                                            .recompute_every = 3,
                                            .zero_stage = stage});
}

TEST(Traffic, LastMicroBatchMayBeSmaller) {
  for (const ModelOptions& model : families())
    expect_exact({.model = model, .global_batch = 10},
                 {.mesh = {.data = 2, .pipeline = 2, .tensor = 2}, .micro = 3});
}

TEST(Traffic, HeadsLossComesInChunksOfRows) {
  ModelOptions model = tiny_gpt2();
  model.sequence = 150;  // 300 rows a micro-batch: chunks of 256 and 44
  expect_exact({.model = model, .global_batch = 2},
               {.mesh = {.data = 1, .pipeline = 1, .tensor = 4}, .micro = 2});
}

// A loss that is no number skips the step: no all-gather, but the bad parameter's owner is found.
TEST(Traffic, SkippedStepsSendLess) {
  Task task{.model = tiny_gpt2(), .compute = DType::kF32};
  task.lr = 1e30;  // the second step meets infinite weights
  const std::string gaps =
      differences(task, {.mesh = {.data = 2, .pipeline = 1, .tensor = 2}, .micro = 2});
  std::string line;
  for (std::istringstream in(gaps); std::getline(in, line);)
    EXPECT_NE(line.find("world/broadcast"), std::string::npos) << line;
  EXPECT_FALSE(gaps.empty()) << "no step was skipped: the test shows nothing";
}

// Megatron-LM's 8 b s h (t - 1) / t elements a layer and micro-batch (arXiv 1909.08053), 12 with
// recomputation, and 10 with sequence parallelism that gathers inputs again for weight gradients.
std::int64_t layer_elements(bool sequence, RecomputeMode mode) {
  const auto tensor_bytes = [&](int layers) {
    Task task{.model = tiny_gpt2(), .global_batch = 2};
    task.model.layers = layers;
    std::int64_t bytes = 0;
    run_layout(task,
               {.mesh = {.data = 1, .pipeline = 1, .tensor = 4},
                .micro = 2,
                .sequence_parallel = sequence,
                .recompute = mode},
               [&](Rank& rank) {
                 auto formulas = traffic_formulas(rank.mesh, rank.engine, 1, 1);
                 if (!rank.first()) return;
                 bytes = formulas["tensor/all_gather"] + formulas["tensor/reduce_scatter"];
                 bytes += sequence ? 0 : formulas["tensor/all_reduce"];
               });
    return bytes;
  };
  return (tensor_bytes(2) - tensor_bytes(1)) / size_of(DType::kF64);
}

TEST(Traffic, MegatronsFormulaIsASpecialCase) {
  const std::int64_t b = 2, s = 8, h = 16, t = 4;
  EXPECT_EQ(layer_elements(false, RecomputeMode::kNone), 8 * b * s * h * (t - 1) / t);
  EXPECT_EQ(layer_elements(false, RecomputeMode::kFull), 12 * b * s * h * (t - 1) / t);
  EXPECT_EQ(layer_elements(true, RecomputeMode::kNone), 10 * b * s * h * (t - 1) / t);
  EXPECT_EQ(layer_elements(true, RecomputeMode::kFull), 14 * b * s * h * (t - 1) / t);
}

}  // namespace
}  // namespace trireme
