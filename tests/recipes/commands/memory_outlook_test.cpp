// What `trireme memory` tells of recipes, without running the program.
#include "recipes/commands/memory_outlook.h"

#include <gtest/gtest.h>

#include "recipes/cli/parse.h"
#include "recipes/commands/memory_refusal.h"
#include "recipes/commands/memory_text.h"
#include "recipes/train/plan.h"

namespace trireme {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Flags as they are told: "--key=value".
Recipe recipe_with(const std::string& text, const std::vector<std::string>& flags = {}) {
  RecipeInput input;
  input.file = "a.cfg";
  input.text = text;
  for (const std::string& flag : flags) {
    const std::size_t equals = flag.find('=');
    input.flags.push_back({flag.substr(2, equals - 2), flag.substr(equals + 1)});
  }
  Recipe recipe = parse_recipe(input);
  resolve_for_machine(recipe, {.cores = 2, .local_ranks = 1, .bf16 = true}, 256);
  return recipe;
}

Recipe small(const std::string& more = "", const std::vector<std::string>& flags = {}) {
  return recipe_with(
      "[model]\nlayers = 4\nhidden = 64\nheads = 4\n[batch]\nglobal = 16\nmicro = 4\nsequence = "
      "32\n"
      "[precision]\ncompute = bf16\n" +
          more,
      flags);
}

MemoryLimit limit_of(std::int64_t bytes) { return {bytes, "device.memory = some", true}; }

// Figure 1 of ZeRO (arXiv 1910.02054) asked of recipes: 7.5B parameters on 64 ranks, gradients of
// the compute type. 48 x 3584 with a vocabulary of 50k has 7.58B; the formula scales with it.
TEST(MemoryOutlook, TellsFigureOneOfThePaper) {
  const double expected[] = {16, 4 + 12.0 / 64, 2 + 14.0 / 64, 16.0 / 64};
  for (int stage = 0; stage <= 3; ++stage) {
    const Recipe recipe = recipe_with(
        "[model]\nlayers = 48\nhidden = 3584\nheads = 28\nvocab = 50304\n[batch]\nglobal = 64\n"
        "micro = 1\nsequence = 1024\n[parallel]\ndata = 64\n[precision]\ncompute = bf16\n"
        "gradients = compute\n[zero]\nstage = " +
        std::to_string(stage) + "\n");
    const MemoryOutlook told = memory_outlook(recipe, {});
    const auto psi = static_cast<double>(told.stages[0].elements);
    EXPECT_NEAR(psi, 7.5e9, 0.15e9);
    EXPECT_NEAR(static_cast<double>(told.stages[0].resident[0]), expected[stage] * psi, 1.0);
  }
}

TEST(MemoryOutlook, TheFullestStageDecides) {
  const Recipe recipe = small("[parallel]\npipeline = 2\n");
  const MemoryOutlook told = memory_outlook(recipe, limit_of(1 << 30));
  ASSERT_EQ(told.stages.size(), 2u);
  EXPECT_EQ(told.needed, std::max(told.stages[0].peak[0], told.stages[1].peak[0]));
  EXPECT_TRUE(told.fits());
  EXPECT_FALSE(memory_outlook(recipe, limit_of(told.needed - 1)).fits());
  EXPECT_TRUE(memory_outlook(recipe, limit_of(told.needed)).fits());
}

TEST(MemoryOutlook, OfRamDeviceAndHostCountTogether) {
  Recipe recipe = small("[zero]\nstage = 1\n");
  recipe.offload.optimizer = "host";
  const MemoryOutlook device = memory_outlook(recipe, limit_of(1 << 30));
  const MemoryOutlook ram = memory_outlook(recipe, {1 << 30, "RAM 1.00 GiB", false});
  EXPECT_GT(ram.needed, device.needed);
  EXPECT_EQ(ram.needed, ram.stages[0].ram);
}

TEST(MemoryOutlook, VariantsTakeLessStepByStep) {
  const Recipe recipe = small("[parallel]\ndata = 4\n[zero]\nstage = 2\n");
  const std::vector<MemoryVariant> rows = memory_variants(recipe, limit_of(1 << 30));
  ASSERT_EQ(rows.size(), 32u);
  int recipes = 0;
  for (const MemoryVariant& row : rows) {
    recipes += row.is_recipe;
    EXPECT_TRUE(row.possible);
    EXPECT_EQ(row.host > 0, row.offload != "none") << row.zero_stage << row.offload;
    EXPECT_EQ(row.disk > 0, row.offload == "disk");
    if (row.is_recipe) {
      EXPECT_EQ(row.device, memory_outlook(recipe, limit_of(1 << 30)).needed);
    }
  }
  EXPECT_EQ(recipes, 1);
  EXPECT_GT(rows[0].device, rows[1].device) << "selective recomputation";
  EXPECT_GT(rows[1].device, rows[2].device) << "full recomputation";
}

// The number that is told fits, and one more does not.
TEST(MemoryOutlook, ReachIsTheLargestThatFits) {
  const Recipe recipe = small();
  const std::int64_t now = memory_outlook(recipe, limit_of(1)).needed;
  const MemoryLimit limit = limit_of(now * 3);
  const std::vector<MemoryReach> reach = memory_reach(recipe, limit);
  ASSERT_EQ(reach.size(), 3u);
  const auto fits = [&](Recipe r) { return memory_outlook(r, limit).fits(); };
  const auto with = [&](std::size_t which, std::int64_t value) {
    Recipe r = recipe;
    if (which == 0) r.batch.global = 4 * value, r.batch.micro = value;
    if (which == 1) r.batch.sequence = value;
    if (which == 2) r.model.layers = value;
    return r;
  };
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(reach[i].most) << reach[i].key;
    EXPECT_GT(*reach[i].most, reach[i].now);
    EXPECT_FALSE(reach[i].more);
    EXPECT_TRUE(fits(with(i, *reach[i].most))) << reach[i].key;
    EXPECT_FALSE(fits(with(i, *reach[i].most + 1))) << reach[i].key;
  }
  EXPECT_EQ(reach[2].parameters, logical_parameters(engine_options(with(2, *reach[2].most)).model));
  for (const MemoryReach& none : memory_reach(recipe, limit_of(1))) EXPECT_FALSE(none.most);
  EXPECT_TRUE(memory_reach(recipe, {}).empty()) << "no limit is known";
}

TEST(MemoryOutlook, WordsOfTheVerdict) {
  const Recipe recipe = small();
  MemoryOutlook told = memory_outlook(recipe, {2 << 20, "device.memory = 2.00 MiB", true});
  told.needed = 1 << 20;
  EXPECT_EQ(verdict(told),
            "FITS: 1.00 MiB of 2.00 MiB a rank (device.memory = 2.00 MiB), 1.00 MiB to spare");
  told.needed = 3 << 20;
  EXPECT_EQ(verdict(told),
            "DOES NOT FIT: each rank needs 3.00 MiB, 1.00 MiB more than 2.00 MiB (device.memory = "
            "2.00 MiB)");
  told.limit = {};
  EXPECT_EQ(verdict(told), "FITS: 3.00 MiB a rank, and no limit is known");
}

TEST(MemoryOutlook, RefusesOnlyBelowTheSmallestPossible) {
  Recipe recipe = small("[parallel]\ndata = 2\n");
  const std::int64_t least =
      memory_outlook(smallest_of(recipe), limit_of(1), Detail::kBytes).needed;
  const auto refusal = [&](std::int64_t bytes) {
    recipe.device.memory = bytes;
    return memory_refusal(memory_outlook(recipe, limit_of(bytes)), recipe);
  };
  EXPECT_EQ(refusal(0), "");
  EXPECT_EQ(refusal(least), "") << "a variant would fit: memory_misfit tells which";
  const std::string said = refusal(least - 1);
  EXPECT_TRUE(contains(said, "device.memory = ")) << said;
  EXPECT_TRUE(contains(said, std::to_string(least) + " bytes")) << said;
  EXPECT_TRUE(contains(said, "Try parallel.pipeline = 2")) << said;
}

// Whatever a run is told to try must fit, be a recipe, and change no more than the table's rows do.
TEST(MemoryOutlook, AMisfitNamesTheSmallestChange) {
  const std::string text = "[parallel]\ndata = 2\n";
  const Recipe plain = small(text);
  const std::int64_t needed = memory_outlook(plain, {}, Detail::kBytes).needed;
  const std::int64_t device = memory_outlook(plain, limit_of(1), Detail::kBytes).needed;
  EXPECT_LE(device, needed);
  const std::int64_t least = memory_outlook(smallest_of(plain), limit_of(1), Detail::kBytes).needed;
  for (const std::int64_t bytes : {device, device - 1, (device + least) / 2, least + 1000, least}) {
    Recipe recipe = plain;
    recipe.device.memory = bytes;
    const MemoryLimit limit = limit_of(bytes);
    const std::string said = memory_misfit(memory_outlook(recipe, limit), recipe);
    if (bytes == device) {
      EXPECT_EQ(said, "");
      continue;
    }
    const auto change = smallest_change(recipe, limit);
    ASSERT_TRUE(change) << bytes;
    EXPECT_LE(change->needed, bytes);
    EXPECT_TRUE(contains(said, std::to_string(device) + " bytes")) << said;
    EXPECT_TRUE(contains(said, change->flags.front())) << said;
    EXPECT_EQ(memory_outlook(small(text, change->flags), limit, Detail::kBytes).needed,
              change->needed)
        << said;
    EXPECT_TRUE(bytes < device - 1 || change->flags.size() == 1) << said;
    const auto micro = smaller_micro_batch(recipe, limit);
    EXPECT_TRUE(!micro || contains(said, micro->flags.front())) << said;
    EXPECT_TRUE(micro || bytes < device - 1) << "three samples at a time take a little less";
  }
  Recipe machine = plain;  // a limit of the machine alone refuses nothing
  EXPECT_EQ(memory_misfit(memory_outlook(machine, {1, "RAM", false}), machine), "");
}

TEST(MemoryOutlook, ExplainsWithFormulas) {
  const Recipe recipe = small("[parallel]\ndata = 2\n[zero]\nstage = 2\n");
  const std::string text = memory_explanation(memory_outlook(recipe, limit_of(1 << 30)), recipe);
  for (const char* part :
       {"2 Psi + 16 Psi / N = ", "device gradients: 4 Psi / N = ", "being reduced, of layers.",
        "stream between entries", "what one block takes", "N = 2"})
    EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
}

}  // namespace
}  // namespace trireme
