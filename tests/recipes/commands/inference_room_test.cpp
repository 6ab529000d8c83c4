// A model that does not fit is refused with what it needs and the flag that helps; with the flag it
// fits; what is left is for units that stay.
#include "recipes/commands/inference_room.h"

#include <gtest/gtest.h>

#include "recipes/cli/parse.h"
#include "recipes/train/plan.h"

namespace trireme {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

// 24 layers of 12.6 M parameters in bf16: 24 MiB each, and 8 MiB of table.
Recipe recipe_of(const std::vector<Flag>& more) {
  RecipeInput input{.flags = {{"model.family", "llama"},
                              {"model.layers", "24"},
                              {"model.hidden", "1024"},
                              {"model.heads", "16"},
                              {"model.ffn", "2816"},
                              {"model.vocab", "4096"},
                              {"batch.sequence", "512"},
                              {"precision.compute", "bf16"}}};
  input.flags.insert(input.flags.end(), more.begin(), more.end());
  return parse_recipe(input);
}

struct Told {
  InferenceNeeds needs;
  std::string misfit;
  std::int64_t device_total = 0, resident = 0;
};
Told told(const std::vector<Flag>& flags, const MemoryLimit& limit) {
  const Recipe recipe = recipe_of(flags);
  EngineOptions options = engine_options(recipe);
  Told t;
  t.needs = inference_needs(recipe, options, {}, limit);
  t.misfit = inference_misfit(recipe, t.needs, limit);
  leave_room(recipe, t.needs, limit, options);
  t.device_total = options.stage.offload.device_total;
  t.resident = options.stage.offload.resident;
  return t;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::vector<Flag> kHost = {{"zero.stage", "3"}, {"offload.parameters", "host"}};
const std::vector<Flag> kDisk = {{"zero.stage", "3"}, {"offload.parameters", "disk"}};

TEST(InferenceRoom, WeightsAreThoseOfTheModel) {
  const Recipe recipe = recipe_of({});
  const EngineOptions options = engine_options(recipe);
  const Told t = told({}, {});
  EXPECT_NEAR(static_cast<double>(t.needs.weights),
              2.0 * static_cast<double>(logical_parameters(options.model)), 26 * 8192.0 + 1);
  EXPECT_EQ(t.misfit, "");  // nobody knows the limit
  EXPECT_EQ(t.device_total, 0);
}

TEST(InferenceRoom, WhatIsCopiedToBeStreamedNeedsAFolder) {
  const MemoryLimit limit{.bytes = 600 * kMiB, .source = "RAM 600 MiB"};
  const Recipe recipe = recipe_of({});
  InferenceNeeds needs = inference_needs(recipe, engine_options(recipe), {}, limit);
  const std::string plain = inference_misfit(recipe, needs, limit);
  EXPECT_TRUE(contains(plain, "It fits with --offload.parameters=disk: ")) << plain;
  needs.copied = true;
  const std::string copied = inference_misfit(recipe, needs, limit);
  EXPECT_TRUE(contains(copied, "--offload.parameters=disk --offload.folder=FOLDER")) << copied;
}

TEST(InferenceRoom, TheFlagThatIsNamedFits) {
  const MemoryLimit limit{
      .bytes = 400 * kMiB, .source = "device.memory = 400 MiB", .device_alone = true};
  const Told plain = told({}, limit);
  EXPECT_TRUE(contains(plain.misfit, "the model does not fit: a rank needs about")) << plain.misfit;
  EXPECT_TRUE(contains(plain.misfit, "device.memory = 400 MiB")) << plain.misfit;
  EXPECT_TRUE(contains(plain.misfit, "\n  weights  ")) << plain.misfit;
  EXPECT_TRUE(contains(plain.misfit, "It fits with --offload.parameters=host")) << plain.misfit;
  const Told streamed = told(kHost, limit);
  EXPECT_EQ(streamed.misfit, "");
  EXPECT_EQ(streamed.device_total, 400 * kMiB - streamed.needs.beside_weights());
}

TEST(InferenceRoom, AMachineThatIsTooSmallIsToldOfTheDisk) {
  const MemoryLimit limit{.bytes = 700 * kMiB, .source = "cgroup limit 700 MiB"};
  const Told plain = told({}, limit);
  EXPECT_TRUE(contains(plain.misfit, "It fits with --offload.parameters=disk")) << plain.misfit;
  // On the host they would still be in the same memory.
  EXPECT_TRUE(contains(told(kHost, limit).misfit, "--offload.parameters=disk"));
  const Told disk = told(kDisk, limit);
  EXPECT_EQ(disk.misfit, "");
  EXPECT_EQ(disk.device_total, 700 * kMiB - disk.needs.beside_weights());
}

// A cache that was wished too large is named first; with each of the flags it fits.
TEST(InferenceRoom, ASmallerCacheFits) {
  const MemoryLimit limit{.bytes = 1200 * kMiB, .source = "cgroup limit 1.17 GiB"};
  const CacheWish wish{.bytes = 1024 * kMiB, .tokens = 4096, .texts = 64};
  const Recipe recipe = recipe_of({});
  const EngineOptions options = engine_options(recipe);
  const auto needs_with = [&](std::int64_t bytes) {
    return inference_needs(recipe, options,
                           {.bytes = bytes, .tokens = wish.tokens, .texts = wish.texts}, limit);
  };
  const std::string misfit = inference_misfit(recipe, needs_with(wish.bytes), limit, true);
  const std::size_t at = misfit.find("It fits with --kv-cache=");
  ASSERT_NE(at, std::string::npos) << misfit;
  const std::int64_t named = std::atoi(misfit.c_str() + at + 24) * kMiB;
  EXPECT_EQ(inference_misfit(recipe, needs_with(named), limit, true), "") << misfit;
  EXPECT_NE(inference_misfit(recipe, needs_with(named + kMiB), limit, true), "") << misfit;
  EXPECT_EQ(inference_misfit(recipe, needs_with(wish.bytes), limit).find("--kv-cache"),
            std::string::npos)
      << "of a command without that option";
}

// Small contexts take what they need, not what they might.
TEST(InferenceRoom, TheCacheIsNoLargerThanItsTexts) {
  const Recipe recipe = recipe_of({});
  const EngineOptions options = engine_options(recipe);
  const auto cache = [&](const CacheWish& wish, const MemoryLimit& limit = {}) {
    return inference_needs(recipe, options, wish, limit).cache;
  };
  const std::int64_t token = 2 * 24 * 1024 * 2;  // keys and values, layers, hidden, bf16
  EXPECT_EQ(cache({.bytes = 1024 * kMiB, .tokens = 100, .texts = 3}), (3 * 112 + 16) * token);
  EXPECT_EQ(cache({.bytes = 2 * kMiB, .tokens = 100, .texts = 3}), 2 * kMiB);
  // On the host it takes nothing of a device of its own, and the same of a machine's memory.
  const Recipe away = recipe_of({{"offload.kv_cache", "host"}});
  for (const bool alone : {true, false}) {
    const InferenceNeeds needs =
        inference_needs(away, engine_options(away), {.bytes = 2 * kMiB, .tokens = 4096},
                        {.bytes = 1, .source = "", .device_alone = alone});
    EXPECT_EQ(needs.cache, 2 * kMiB);
    EXPECT_EQ(needs.cache_here, alone ? 0 : 2 * kMiB);
  }
}

TEST(InferenceRoom, NotEvenTwoSlots) {
  const MemoryLimit limit{
      .bytes = 100 * kMiB, .source = "device.memory = 100 MiB", .device_alone = true};
  const std::string misfit = told(kHost, limit).misfit;
  const std::string said = "Streamed from the host it needs --device.memory=";
  const std::size_t at = misfit.find(said);
  ASSERT_NE(at, std::string::npos) << misfit;
  EXPECT_TRUE(contains(misfit, "MiB, with --offload.parameters=host --offload.slots=2")) << misfit;
  EXPECT_FALSE(contains(misfit, "--kv-cache")) << misfit;
  const auto fits = [&](std::int64_t mib) {
    return told(kHost, {.bytes = mib * kMiB, .source = "", .device_alone = true}).misfit.empty();
  };
  const std::int64_t named = std::atoi(misfit.c_str() + at + said.size());
  EXPECT_TRUE(fits(named)) << misfit;
  EXPECT_FALSE(fits(named - 1)) << misfit;
}

// The same where the cache would be smaller, too: with all that is named it fits.
TEST(InferenceRoom, NotEvenTwoSlotsBesideALargeCache) {
  const Recipe recipe = recipe_of(kHost);
  const EngineOptions options = engine_options(recipe);
  const auto misfit_with = [&](std::int64_t cache, std::int64_t memory) {
    const MemoryLimit limit{.bytes = memory * kMiB, .source = "", .device_alone = true};
    const CacheWish wish{.bytes = cache * kMiB, .tokens = 4096, .texts = 64};
    return inference_misfit(recipe, inference_needs(recipe, options, wish, limit), limit, true);
  };
  const auto number_behind = [](const std::string& text, const std::string& flag) {
    const std::size_t at = text.find(flag);
    return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + flag.size());
  };
  const std::string misfit = misfit_with(1024, 100);
  const std::int64_t memory = number_behind(misfit, "it needs --device.memory="),
                     cache = number_behind(misfit, "--offload.slots=2 --kv-cache=");
  ASSERT_GT(memory, 100) << misfit;
  ASSERT_GT(cache, 0) << misfit;
  EXPECT_EQ(misfit_with(cache, memory), "");
  EXPECT_NE(misfit_with(cache, memory - 1), "");
}

TEST(InferenceRoom, BytesThatAreNamedAreTaken) {
  std::vector<Flag> flags = kDisk;
  flags.push_back({"offload.resident", "64MiB"});
  const Told t = told(flags, {.bytes = 900 * kMiB, .source = "RAM"});
  EXPECT_EQ(t.device_total, 0);
  EXPECT_EQ(t.resident, 64 * kMiB);
  // On the host of a machine of one memory, auto streams all.
  const Told host = told(kHost, {.bytes = 4000 * kMiB, .source = "RAM"});
  EXPECT_EQ(host.misfit, "");
  EXPECT_EQ(host.device_total, 0);
  EXPECT_EQ(host.resident, 0);
}

}  // namespace
}  // namespace trireme
