// config.json of models that began here: read again it is the same model, for every family.
#include "recipes/huggingface/config_write.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "recipes/cli/parse.h"
#include "recipes/huggingface/config.h"

namespace trireme {
namespace {

Recipe parsed(const std::vector<std::pair<std::string, std::string>>& keys) {
  RecipeInput input;
  for (const auto& [key, value] : keys) input.flags.push_back({"model." + key, value});
  return parse_recipe(input);
}

void expect_round_trip(const std::string& type,
                       std::vector<std::pair<std::string, std::string>> keys) {
  SCOPED_TRACE(type);
  keys.insert(keys.end(), {{"vocab", "61"}, {"hidden", "24"}, {"heads", "3"}, {"ffn", "42"}});
  Recipe recipe = parsed(keys);
  const HfModel model = read_hf_config(hf_config_of(recipe, DType::kBF16), "config.json");
  EXPECT_EQ(model.type, type);
  EXPECT_EQ(model.dtype, DType::kBF16);
  Recipe again = parsed(model.keys);
  if (recipe.model.positions == 0 && type == "gpt2") recipe.model.positions = recipe.batch.sequence;
  EXPECT_EQ(again.model, recipe.model);
}

TEST(HfConfigWrite, EveryFamilyIsReadAgain) {
  expect_round_trip("gpt2", {{"norm_eps", "1e-6"}});
  expect_round_trip("gpt2", {{"positions", "1024"}, {"tie_embeddings", "false"}});
  const std::pair<std::string, std::string> llama{"family", "llama"}, window{"window", "8"};
  expect_round_trip("llama", {llama, {"kv_heads", "1"}, {"rope_scaling", "llama3:8,1,4,8192"}});
  expect_round_trip("llama", {llama, {"rope_scaling", "linear:2.5"}, {"head_dim", "10"}});
  expect_round_trip("mistral", {llama, window});
  expect_round_trip("qwen2", {llama, {"bias", "qkv"}});
  expect_round_trip("qwen2", {llama, {"bias", "qkv"}, window});
  expect_round_trip("qwen3", {llama, {"qk_norm", "true"}, {"head_dim", "10"}});
  expect_round_trip("qwen3", {llama, {"qk_norm", "true"}, window});
  expect_round_trip("gemma", {llama,
                              {"norm", "rms1"},
                              {"activation", "geglu"},
                              {"scale_embeddings", "true"},
                              {"head_dim", "10"}});
}

TEST(HfConfigWrite, WhatNoFamilyHasIsRefused) {
  const std::pair<std::string, std::string> llama{"family", "llama"};
  for (const auto& keys : std::vector<std::vector<std::pair<std::string, std::string>>>{
           {{"norm", "rms"}},
           {{"kv_heads", "1"}},
           {{"window", "8"}},
           {llama, {"bias", "all"}},
           {llama, {"bias", "qkv"}, {"qk_norm", "true"}},
           {llama, {"bias", "qkv"}, {"head_dim", "10"}},
           {llama, {"norm", "rms1"}},
           {llama, {"activation", "geglu"}},
           {llama, {"scale_embeddings", "true"}},
           {{"family", "mlp"}, {"tie_embeddings", "false"}}})
    EXPECT_THROW(hf_config_of(parsed(keys), DType::kF32), Error) << keys.back().first;
}

}  // namespace
}  // namespace trireme
