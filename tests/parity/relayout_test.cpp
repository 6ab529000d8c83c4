// State saved by any layout goes on under any other: all ordered pairs of eight layouts, without
// files between them (arXiv 2407.20143 calls it resharding).
#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "tests/parity/train_layout.h"
#include "zero/train_state.h"

namespace trireme::parity {
namespace {

// Whole arrays by name, and how often each element was written.
class Saved {
 public:
  void add(Rank& rank) {
    const ZeroOptimizer& optimizer = rank.engine.optimizer();
    const Communicator* replicas = rank.engine.stage().replicas();
    for (const StatePiece& piece : pieces_to_save(optimizer, !replicas || replicas->rank() == 0)) {
      const Rectangle& at = piece.piece.at;
      const auto ledger = std::make_shared<MemoryLedger>();
      const Tensor host = allocate_on_host(ledger, {at.elements()}, piece.piece.array.dtype,
                                           MemoryKind::kWorkspace);
      read_piece(optimizer, piece, 0, host);
      const std::scoped_lock lock(mutex_);
      Whole& whole = arrays_[piece.piece.array.name];
      whole.shape = piece.piece.array.shape;
      const std::int64_t columns = piece.piece.array.columns();
      whole.values.resize(static_cast<std::size_t>(whole.shape.elements()));
      whole.written.resize(whole.values.size());
      for (std::int64_t i = 0; i < at.elements(); ++i) {
        const auto index = static_cast<std::size_t>((at.row + i / at.columns) * columns +
                                                    at.column + i % at.columns);
        whole.values[index] = host.as<double>()[i];
        ++whole.written[index];
      }
    }
    progress_ = optimizer.progress();
  }

  // Every element of every array was written by one rank.
  void expect_whole() const {
    for (const auto& [name, whole] : arrays_)
      for (std::size_t i = 0; i < whole.written.size(); ++i)
        ASSERT_EQ(whole.written[i], 1) << name.tensor << " " << name.array << " element " << i;
  }

  void load_into(Rank& rank) const {
    const auto host = make_reference_backend(rank.backend.shared_ledger());
    rank.engine.optimizer().restore(progress_);
    load_state(rank.engine.optimizer(), rank.backend, *host,
               [&](const ArrayName& name, const Shape& logical, const Rectangle& at, DType dtype,
                   void* out) -> ArrayRead {
                 const Whole& whole = arrays_.at(name);
                 check(whole.shape == logical && dtype == DType::kF64, "no such array");
                 const std::int64_t columns = logical.dims() < 2 ? 1 : logical[1];
                 for (std::int64_t i = 0; i < at.elements(); ++i)
                   static_cast<double*>(out)[i] = whole.values[static_cast<std::size_t>(
                       (at.row + i / at.columns) * columns + at.column + i % at.columns)];
                 return nullptr;
               });
  }
  bool operator==(const Saved& other) const { return arrays_ == other.arrays_; }
  std::size_t arrays() const { return arrays_.size(); }

 private:
  struct Whole {
    Shape shape;
    std::vector<double> values;
    std::vector<int> written;
    bool operator==(const Whole&) const = default;
  };
  std::mutex mutex_;
  std::map<ArrayName, Whole> arrays_;
  ZeroOptimizer::Progress progress_;
};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {
      {},
      {.mesh = {.data = 2, .tensor = 2}, .zero_stage = 1},
      {.mesh = {.data = 4}, .zero_stage = 3},
      {.mesh = {.pipeline = 4}, .recompute = RecomputeMode::kFull},
      {.mesh = {.data = 2, .pipeline = 2, .tensor = 2}, .zero_stage = 2},
      {.mesh = {.pipeline = 2, .tensor = 4}, .sequence_parallel = true},
      {.mesh = {.data = 3},
       .zero_stage = 3,
       .offload = {.optimizer = Tier::kDisk,
                   .gradients = Tier::kHost,
                   .parameters = Tier::kHost,
                   .tile = 500}},
      {.mesh = {.data = 4}, .zero_stage = 3, .shard_ranks = 2}};
  return all;
}

constexpr int kBefore = 2, kAfter = 3;

// Losses of steps kBefore .. kBefore + kAfter - 1.
std::vector<double> go_on(const Task& task, const Layout& layout, const Saved* from,
                          Saved* again = nullptr) {
  std::vector<double> losses;
  const SampleSource source = random_samples(task.model, task.seed);
  run_layout(task, layout, [&](Rank& rank) {
    if (from) from->load_into(rank);
    if (again) again->add(rank);
    for (int step = from ? kBefore : 0; step < kBefore + kAfter; ++step) {
      const EngineStep result = rank.engine.train(step, source);
      if (rank.first() && step >= kBefore) losses.push_back(result.loss);
    }
  });
  return losses;
}

// `every`: of all pairs, one in so many.
void expect_relayout(Task task, int every) {
  task.model.dropout = 0.1;
  int pair = 0;
  const std::vector<double> quiet = go_on(task, {}, nullptr);
  for (const Layout& first : layouts()) {
    Saved saved;
    run_layout(task, first, [&](Rank& rank) {
      const SampleSource source = random_samples(task.model, task.seed);
      for (int step = 0; step < kBefore; ++step) rank.engine.train(step, source);
      saved.add(rank);
    });
    saved.expect_whole();
    for (const Layout& second : layouts()) {
      if (pair++ % every != 0) continue;
      SCOPED_TRACE(text_of(first) + " then " + text_of(second));
      Saved again;
      const std::vector<double> losses = go_on(task, second, &saved, &again);
      EXPECT_EQ(saved, again);  // saved, loaded, saved: the same bits
      ASSERT_EQ(losses.size(), quiet.size());
      for (std::size_t i = 0; i < quiet.size(); ++i)
        EXPECT_NEAR(losses[i], quiet[i], 1e-12 * std::abs(quiet[i]));
    }
  }
}

TEST(Relayout, AllOrderedPairsOfEightLayouts) { expect_relayout({.model = tiny_llama(2)}, 1); }

// Head norms and biases of a fused part, replicated key heads; norms of weight + 1 that start at 0.
TEST(Relayout, ModelsOfOtherFamilies) {
  expect_relayout({.model = tiny_qwen(1)}, 3);
  expect_relayout({.model = tiny_gemma()}, 5);
}

}  // namespace
}  // namespace trireme::parity
