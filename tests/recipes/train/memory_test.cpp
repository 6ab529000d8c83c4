// Resident bytes equal ZeRO's formulas exactly at every stage (arXiv 1910.02054, section 3; with
// f32 gradients), and peaks of states that stay whole equal them too.
#include <gtest/gtest.h>

#include <mutex>

#include "framework/base/error.h"
#include "recipes/train/rank_report.h"
#include "tests/parity/train_layout.h"

namespace trireme {
namespace {

using namespace parity;

struct Bytes {
  std::int64_t resident = 0, psi = 0, ranks = 0;
};

// Differences between counted and computed bytes, one a line; and what rank 0 holds in all.
std::string differences(const Task& task, const Layout& layout, Bytes& held) {
  std::mutex mutex;
  std::string text;
  const SampleSource source = random_samples(task.model, task.seed);
  run_layout(task, layout, [&](Rank& rank) {
    StepMemory memory(rank.backend.ledger());
    for (int step = 0; step < 3; ++step) {
      memory.begin_step();
      rank.engine.train(step, source);
      memory.end_step();
      rank.engine.evaluate(200, source);  // loads more ids than a step: not told
    }
    const RankReport report = rank_report(rank.mesh, rank.engine, memory, {});
    std::scoped_lock lock(mutex);
    for (const auto& [tier, kinds] : report.memory)
      for (const auto& [kind, cell] : kinds) {
        if (cell.formula_resident && *cell.formula_resident != cell.resident)
          text += join(report.name, ": ", tier, " ", kind, " ", cell.resident, " bytes, formula ",
                       *cell.formula_resident, "\n");
        if (cell.formula_peak && *cell.formula_peak != cell.peak)
          text += join(report.name, ": ", tier, " ", kind, " peak ", cell.peak, " bytes, formula ",
                       *cell.formula_peak, "\n");
        if (rank.first() && tier == "device" && cell.formula_resident)
          held.resident += cell.resident;
      }
    if (rank.first())
      held.psi = rank.engine.stage().elements(), held.ranks = rank.mesh.data().size();
  });
  return text;
}

// Bytes per element of what is whole and of what is cut over N data ranks.
struct Formula {
  std::int64_t whole, cut;
};

void expect_formula(DType compute, int stage, Formula formula, bool narrow_gradients = false) {
  for (const MeshShape mesh : {MeshShape{2, 1, 1}, MeshShape{4, 1, 2}, MeshShape{2, 2, 2}}) {
    Bytes held;
    const Layout layout{.mesh = mesh, .micro = 3, .zero_stage = stage};
    SCOPED_TRACE(text_of(layout));
    const Task task{.model = tiny_gpt2(), .compute = compute, .narrow_gradients = narrow_gradients};
    EXPECT_EQ(differences(task, layout, held), "");
    EXPECT_EQ(held.resident, formula.whole * held.psi + formula.cut * (held.psi / held.ranks));
  }
}

TEST(Memory, F32HasThePapersFormulas) {
  expect_formula(DType::kF32, 0, {16, 0});
  expect_formula(DType::kF32, 1, {8, 8});
  expect_formula(DType::kF32, 2, {4, 12});
  expect_formula(DType::kF32, 3, {0, 16});
}

TEST(Memory, Bf16WithWideGradientsHasTheFormulas) {
  expect_formula(DType::kBF16, 0, {18, 0});
  expect_formula(DType::kBF16, 1, {6, 12});
  expect_formula(DType::kBF16, 2, {2, 16});
  expect_formula(DType::kBF16, 3, {0, 18});
}

// The paper's own mode: 16-bit gradients (arXiv 1910.02054, section 3.1).
TEST(Memory, NarrowGradientsHaveThePapersFormulas) {
  for (DType compute : {DType::kBF16, DType::kF16}) {
    expect_formula(compute, 0, {16, 0}, true);
    expect_formula(compute, 1, {4, 12}, true);
    expect_formula(compute, 2, {2, 14}, true);
    expect_formula(compute, 3, {0, 16}, true);
  }
}

// Every cell that has a formula has its bytes, on all tiers; only the workspace has none.
TEST(Memory, MovedStatesAndInputsHaveTheFormulas) {
  for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
    Bytes held;
    const Layout layout{
        .mesh = {2, 1, 2},
        .micro = 3,
        .recompute = RecomputeMode::kFull,
        .zero_stage = 3,
        .offload = {.optimizer = tier, .gradients = tier, .parameters = tier, .activations = tier}};
    EXPECT_EQ(differences({.model = tiny_gpt2(), .compute = DType::kBF16}, layout, held), "");
    EXPECT_EQ(held.resident, 0);
  }
}

TEST(Memory, FrozenLayersHaveAFormulaOfActivations) {
  const Task task{.model = tiny_gpt2(),
                  .frozen = [](const std::string& name) { return name.starts_with("layers.1"); }};
  run_layout(task, {.micro = 3}, [&](Rank& rank) {
    const StepMemory memory(rank.backend.ledger());
    const auto cells = rank_report(rank.mesh, rank.engine, memory, {}).memory.at("device");
    EXPECT_TRUE(cells.at("activations").formula_peak);
    EXPECT_TRUE(cells.at("gradients").formula_peak);
  });
}

}  // namespace
}  // namespace trireme
