// Lists of neighbours put together are a whole training step of one stage: the peak of activations
// of a real step, exact, without recomputation, selective and full. And of an evaluation.
#include <gtest/gtest.h>

#include <algorithm>

#include "framework/base/error.h"
#include "tests/parity/train_layout.h"
#include "tests/recipes/memory/layer_run.h"

namespace trireme::test {
namespace {

using parity::Layout;
using parity::Rank;
using parity::run_layout;
using parity::Task;

// The activations of one stage's entries, in use by use.
class StepOnPaper {
 public:
  StepOnPaper(const ModelOptions& model, const LayerUse& use) : model_(model) {
    for (int entry = 0; entry < model.layers + 2; ++entry) {
      LayerUse own = use;
      own.first_block = model.family == Family::kMlp && entry == 1;
      uses_.push_back(own);
      lists_.emplace_back();
    }
    bool narrow = false;
    for (std::size_t i = uses_.size(); i-- > 0;) {
      uses_[i].narrow_gradient = narrow;
      const EntryKind kind = kind_of(model, static_cast<int>(i));
      lists_[i] = layer_memory(model, kind, uses_[i]);
      narrow = narrow_input_gradient(model, kind, uses_[i]);
    }
  }

  void hold_ids(std::int64_t count) { change(count * size_of(DType::kI32)); }

  // every: blocks of a recomputed segment, 0 = nothing is run again; split: backward in two halves.
  std::int64_t train(std::size_t every, bool split) {
    const std::size_t end = lists_.size() - 1;
    replay(ledger_, lists_.front().forward);
    for (std::size_t i = 1; i < end; ++i) {
      if (every == 0)
        replay(ledger_, lists_[i].forward);
      else if ((i - 1) % every == 0)
        replay_but_input(lists_[i].inference);
      else
        replay(ledger_, lists_[i].inference);
    }
    replay(ledger_, lists_.back().forward);
    replay(ledger_, lists_.back().backward);
    if (every == 0)
      for (std::size_t i = end; i-- > 1;) replay(ledger_, backward(i, split));
    else
      for (std::size_t segment = (end - 2) / every + 1; segment-- > 0;)
        again(1 + segment * every, std::min(1 + segment * every + every, end), split);
    replay(ledger_, backward(0, split));
    if (split)
      for (std::size_t i = end; i-- > 0;) replay(ledger_, lists_[i].backward_weight);
    return peak();
  }

  // A segment is one module, whose caller holds its input to its end.
  std::int64_t evaluate(std::size_t every) {
    const std::size_t blocks_end = lists_.size() - 1, length = std::max<std::size_t>(every, 1);
    replay(ledger_, lists_.front().inference);
    for (std::size_t begin = 1; begin < blocks_end; begin += length) {
      replay_but_input(lists_[begin].inference);
      for (std::size_t i = begin + 1; i < std::min(begin + length, blocks_end); ++i)
        replay(ledger_, lists_[i].inference);
      give_output(begin - 1);
    }
    replay(ledger_, lists_.back().inference);
    return peak();
  }

  std::int64_t held() const { return ledger_.current(Tier::kDevice); }

 private:
  std::int64_t peak() const { return ledger_.peak(Tier::kDevice); }
  void change(std::int64_t bytes) { ledger_.add(Tier::kDevice, MemoryKind::kActivations, bytes); }

  void give_output(std::size_t entry) { change(-bytes_of(lists_[entry].forward, "output")); }

  void replay_but_input(std::vector<MemoryStep> steps) {
    std::erase_if(steps, [](const MemoryStep& s) { return !s.take && s.tensor == "input"; });
    replay(ledger_, steps);
  }

  const std::vector<MemoryStep>& backward(std::size_t entry, bool split) const {
    return split ? lists_[entry].backward_input : lists_[entry].backward;
  }

  // Backward of a segment: forward again with a tape, whose output nobody takes; the store's copy
  // of its input lives to the end, or to W.
  void again(std::size_t begin, std::size_t end, bool split) {
    replay_but_input(lists_[begin].forward);
    for (std::size_t i = begin + 1; i < end; ++i) replay(ledger_, lists_[i].forward);
    give_output(end - 1);
    for (std::size_t i = end; i-- > begin + 1;) replay(ledger_, backward(i, split));
    replay_but_input(backward(begin, split));
    if (!split || !gives_input(lists_[begin].backward_weight)) give_output(begin - 1);
  }

  static bool gives_input(const std::vector<MemoryStep>& steps) {
    return std::any_of(steps.begin(), steps.end(),
                       [](const MemoryStep& s) { return !s.take && s.tensor == "input"; });
  }

  ModelOptions model_;
  std::vector<LayerUse> uses_;
  std::vector<LayerMemory> lists_;
  MemoryLedger ledger_;
};

std::int64_t activations_peak(Rank& rank, const std::function<void()>& work) {
  MemoryLedger& ledger = rank.backend.ledger();
  EXPECT_EQ(ledger.entry(Tier::kDevice, MemoryKind::kActivations).current, 0);
  ledger.reset_peaks();
  work();
  EXPECT_EQ(ledger.entry(Tier::kDevice, MemoryKind::kActivations).current, 0);
  return ledger.entry(Tier::kDevice, MemoryKind::kActivations).peak;
}

// Three samples in micro-batches of two: the first is the larger; ids and labels of both are held.
void expect_exact_step(Task task, Layout layout) {
  SCOPED_TRACE(text_of(layout));
  task.global_batch = 3;
  layout.micro = 2;
  const ModelOptions& model = task.model;
  LayerUse use{.samples = 2,
               .tensor = layout.mesh.tensor,
               .sequence_parallel = layout.sequence_parallel,
               .compute = task.compute,
               .selective = layout.recompute == RecomputeMode::kSelective,
               .dropout = model.dropout > 0};
  const std::int64_t labels = model.family == Family::kMlp ? 1 : model.sequence;
  const std::size_t every = layout.recompute == RecomputeMode::kFull
                                ? static_cast<std::size_t>(layout.recompute_every)
                                : 0;
  StepOnPaper step(model, use);
  step.hold_ids(3 * (model.sequence + labels));
  const std::int64_t train = step.train(every, layout.schedule == ScheduleKind::kZeroBubbleH1);
  EXPECT_EQ(step.held(), 3 * (model.sequence + labels) * size_of(DType::kI32));
  use.dropout = use.selective = false;
  StepOnPaper pass(model, use);
  pass.hold_ids(3 * (model.sequence + labels));
  const std::int64_t evaluate = pass.evaluate(every);
  const SampleSource source = parity::random_samples(model, 5);
  run_layout(task, layout, [&](Rank& rank) {
    EXPECT_EQ(activations_peak(rank, [&] { rank.engine.train(0, source); }), train);
    EXPECT_EQ(activations_peak(rank, [&] { rank.engine.evaluate(3, source); }), evaluate);
  });
}

class LayerStep : public ::testing::TestWithParam<DType> {};
TEST_P(LayerStep, ThePeakIsThatOfTheLists) {
  ModelOptions untied = parity::tiny_gpt2(), llama = parity::tiny_llama(2),
               dropout = parity::tiny_gpt2();
  untied.tie_embeddings = false;
  dropout.dropout = 0.1;
  ModelOptions mlp = parity::tiny_mlp(), mlp_dropout = mlp;
  mlp_dropout.dropout = 0.1;
  for (const ModelOptions& model :
       {parity::tiny_gpt2(), untied, llama, dropout, mlp, mlp_dropout}) {
    const Task task{.model = model, .compute = GetParam()};
    for (int tensor : {1, 2})
      for (bool sequence_parallel : {false, true}) {
        if (sequence_parallel && (tensor == 1 || model.family == Family::kMlp)) continue;
        const MeshShape mesh{.tensor = tensor};
        const auto with = [&](RecomputeMode mode, std::int64_t every) {
          for (ScheduleKind schedule : {ScheduleKind::kOneFOneB, ScheduleKind::kZeroBubbleH1})
            expect_exact_step(task, {.mesh = mesh,
                                     .schedule = schedule,
                                     .sequence_parallel = sequence_parallel,
                                     .recompute = mode,
                                     .recompute_every = every});
        };
        with(RecomputeMode::kNone, 1);
        with(RecomputeMode::kSelective, 1);
        for (std::int64_t every : {1, 3, 4}) with(RecomputeMode::kFull, every);
      }
  }
}
INSTANTIATE_TEST_SUITE_P(LayerMemory, LayerStep, ::testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace trireme::test
