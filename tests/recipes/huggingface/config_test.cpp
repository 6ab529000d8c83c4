// config.json of public families: what it means for a recipe, and what is refused by name.
#include "recipes/huggingface/config.h"

#include <gtest/gtest.h>

#include <map>

#include "framework/base/error.h"
#include "tests/support/fault_count.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

// Sizes as published; written down here, not copied from a file.
const std::string kLlama32 = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
  "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
  "head_dim": 64, "intermediate_size": 8192, "vocab_size": 128256, "rms_norm_eps": 1e-05,
  "rope_theta": 500000.0, "max_position_embeddings": 131072, "tie_word_embeddings": true,
  "hidden_act": "silu", "attention_bias": false, "mlp_bias": false, "torch_dtype": "bfloat16",
  "rope_scaling": {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
  "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "eos_token_id": [128001, 128008, 128009]})";
const std::string kGpt2 = R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12,
  "n_positions": 1024, "n_ctx": 1024, "vocab_size": 50257, "layer_norm_epsilon": 1e-05,
  "activation_function": "gelu_new", "n_inner": null, "resid_pdrop": 0.1,
  "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}})";

HfModel read(const std::string& text) {
  return read_hf_config(parse_json(text, "c"), "config.json");
}

std::map<std::string, std::string> keys_of(const HfModel& model) {
  return {model.keys.begin(), model.keys.end()};
}

// `text` with the member `key` set to `value`; added if it has none.
std::string with(const std::string& text, const std::string& key, const std::string& value) {
  Json::Object members = parse_json(text, "c").object("c");
  std::erase_if(members, [&](const Json::Member& member) { return member.first == key; });
  if (!value.empty()) members.emplace_back(key, parse_json(value, "v"));
  return to_text(Json(members));
}

std::string refusal(const std::string& text) {
  return testing::sentence_of([&] { read(text); });
}

TEST(HfConfig, LlamaWithScaledPositions) {
  const HfModel model = read(kLlama32);
  const auto keys = keys_of(model);
  EXPECT_EQ(keys.at("family"), "llama");
  EXPECT_EQ(keys.at("hidden"), "2048");
  EXPECT_EQ(keys.at("kv_heads"), "8");
  EXPECT_EQ(keys.at("head_dim"), "64");
  EXPECT_EQ(keys.at("ffn"), "8192");
  EXPECT_EQ(keys.at("activation"), "swiglu");
  EXPECT_EQ(keys.at("rope_theta"), "500000");
  EXPECT_EQ(keys.at("rope_scaling"), "llama3:32,1,4,8192");
  EXPECT_EQ(keys.at("tie_embeddings"), "true");
  EXPECT_EQ(model.dtype, DType::kBF16);
  EXPECT_EQ(model.context, 131072);
}

TEST(HfConfig, NewerFilesPutPositionsIntoRopeParameters) {
  std::string text = with(with(kLlama32, "rope_scaling", ""), "rope_theta", "");
  text = with(text, "rope_parameters", R"({"rope_type": "default", "rope_theta": 1e6})");
  EXPECT_EQ(keys_of(read(text)).at("rope_theta"), "1000000");
  EXPECT_FALSE(keys_of(read(text)).contains("rope_scaling"));
  text = with(with(text, "torch_dtype", ""), "dtype", "\"float16\"");
  EXPECT_EQ(read(text).dtype, DType::kF16);
}

// transformers 5 takes rope_scaling where both are, with the outer rope_theta; older ones know it
// alone. So both must mean the same.
TEST(HfConfig, OldAndNewPositionsMustAgree) {
  const auto both = [](const std::string& newer) {
    return with(kLlama32, "rope_parameters", newer);
  };
  const std::string same =
      R"("factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
         "original_max_position_embeddings": 8192)";
  const auto keys =
      keys_of(read(both(R"({"rope_type": "llama3", "rope_theta": 500000, )" + same + "}")));
  EXPECT_EQ(keys.at("rope_theta"), "500000");
  EXPECT_EQ(keys.at("rope_scaling"), "llama3:32,1,4,8192");
  for (const std::string& newer : {std::string(R"({"rope_type": "default", "rope_theta": 500000})"),
                                   R"({"rope_type": "llama3", "rope_theta": 10000, )" + same + "}",
                                   R"({"rope_type": "linear", )" + same + "}"})
    EXPECT_NE(refusal(both(newer)).find("both there and say different things"), std::string::npos)
        << newer;
}

TEST(HfConfig, Gpt2) {
  const auto keys = keys_of(read(kGpt2));
  EXPECT_EQ(keys.at("family"), "gpt2");
  EXPECT_EQ(keys.at("ffn"), "3072");
  EXPECT_EQ(keys.at("positions"), "1024");
  EXPECT_EQ(keys.at("tie_embeddings"), "true");
}

TEST(HfConfig, FamiliesDifferInTheirSwitches) {
  const auto as = [](const std::string& type, const std::string& text = kLlama32) {
    return with(with(text, "model_type", "\"" + type + "\""), "rope_scaling", "");
  };
  EXPECT_EQ(keys_of(read(as("qwen2"))).at("bias"), "qkv");
  EXPECT_EQ(keys_of(read(as("qwen3"))).at("qk_norm"), "true");
  const auto gemma = keys_of(read(with(as("gemma"), "hidden_act", "\"gelu\"")));
  EXPECT_EQ(gemma.at("norm"), "rms1");
  EXPECT_EQ(gemma.at("activation"), "geglu");
  EXPECT_EQ(gemma.at("scale_embeddings"), "true");
  const std::string mistral = with(as("mistral"), "sliding_window", "4096");
  EXPECT_EQ(keys_of(read(mistral)).at("window"), "4096");
  EXPECT_FALSE(keys_of(read(with(mistral, "sliding_window", "null"))).contains("window"));
  // Qwen files carry a window that they do not use.
  const std::string unused =
      with(with(as("qwen2"), "sliding_window", "32768"), "use_sliding_window", "false");
  EXPECT_FALSE(keys_of(read(unused)).contains("window"));
}

// What is said by leaving out: Mistral's window, and the layers that Qwen's window begins at.
TEST(HfConfig, WindowsBySilence) {
  const auto as = [](const std::string& type, const std::string& text) {
    return with(with(text, "model_type", "\"" + type + "\""), "rope_scaling", "");
  };
  EXPECT_EQ(keys_of(read(as("mistral", kLlama32))).at("window"), "4096");
  const std::string qwen =
      with(with(as("qwen2", kLlama32), "sliding_window", "512"), "use_sliding_window", "true");
  const auto from = [&](const std::string& layers) {
    return with(qwen, "max_window_layers", layers);
  };
  EXPECT_EQ(keys_of(read(from("0"))).at("window"), "512");
  EXPECT_FALSE(keys_of(read(from("16"))).contains("window"));  // of 16 layers
  EXPECT_FALSE(keys_of(read(qwen)).contains("window"));        // 28
  EXPECT_EQ(keys_of(read(with(from("0"), "sliding_window", ""))).at("window"), "4096");
  EXPECT_FALSE(keys_of(read(with(from("0"), "sliding_window", "null"))).contains("window"));
  EXPECT_NE(refusal(from("8")).find("full and sliding attention in one model"), std::string::npos);
}

// Heads whose size nobody says, and keys that older versions wrote for every model.
TEST(HfConfig, SilenceMeansTheFamiliesDefaults) {
  const auto as = [](const std::string& type) {
    return with(with(with(kLlama32, "model_type", "\"" + type + "\""), "rope_scaling", ""),
                "head_dim", "");
  };
  EXPECT_EQ(keys_of(read(as("llama"))).at("head_dim"), "64");
  EXPECT_EQ(keys_of(read(as("qwen3"))).at("head_dim"), "128");
  EXPECT_EQ(keys_of(read(with(as("gemma"), "hidden_act", "\"gelu\""))).at("head_dim"), "256");
  std::string old = kGpt2;
  for (const char* key : {"is_decoder", "torchscript", "do_sample", "output_scores"})
    old = with(old, key, "false");
  old = with(with(old, "pruned_heads", "{}"), "repetition_penalty", "1.0");
  EXPECT_EQ(keys_of(read(old)), keys_of(read(kGpt2)));
}

TEST(HfConfig, RefusesByName) {
  test::FaultCount count{.row = "R25", .what = "config.json that cannot be computed"};
  const auto expect = [&](const std::string& key, const std::string& value, const std::string& part,
                          const std::string& text = kLlama32) {
    ++count.runs, ++count.injected;
    const std::string sentence = refusal(with(text, key, value));
    const bool told = sentence.find(part) != std::string::npos &&
                      sentence.find("config.json") != std::string::npos;
    EXPECT_TRUE(told) << key << " = " << value << ": " << sentence;
    count.lost += told ? 0 : 1;
  };
  expect("model_type", "\"mamba\"", "\"mamba\" is none of gpt2, llama");
  expect("model_type", "", "\"model_type\" is missing");
  expect("shiny_new_trick", "2", "\"shiny_new_trick\": 2 is not known");
  expect("auto_map", R"({"AutoModel": "x.Y"})", "auto_map is not supported: it needs code");
  expect("quantization_config", R"({"bits": 4})", "quantization_config is not supported");
  expect("hidden_act", "\"relu2\"", "hidden_act = \"relu2\" is not supported");
  expect("hidden_act", "\"relu\"", "hidden_act = \"relu\" is not supported",
         with(with(kLlama32, "model_type", "\"gemma\""), "rope_scaling", ""));
  expect("pruned_heads", R"({"0": [1]})", "pruned_heads = {\"0\": [1]} is not supported", kGpt2);
  expect("attention_bias", "true", "attention_bias = true is not supported; only false is");
  expect("rope_scaling", R"({"type": "yarn", "factor": 4.0})", "type \"yarn\" is not supported");
  expect("rope_scaling", R"({"rope_type": "llama3", "factor": 8.0})",
         "\"low_freq_factor\" is missing");
  expect("rope_scaling", R"({"rope_type": "linear", "factor": 0})", "is not positive");
  expect("rope_scaling", "[]", "an object is expected");
  expect("rope_parameters", "\"linear\"", "an object is expected");
  expect("rope_parameters", R"({"full_attention": {"rope_type": "default"}})",
         "rope_scaling.full_attention");
  expect("partial_rotary_factor", "0.5", "partial_rotary_factor = 0.5 is not supported");
  expect("layer_types", R"(["full_attention", "linear_attention"])", "\"linear_attention\"");
  expect("dtype", "\"float8_e4m3fn\"", "dtype = \"float8_e4m3fn\" is not supported");
  for (const char* key : {"num_attention_heads", "num_hidden_layers", "hidden_size",
                          "intermediate_size", "vocab_size", "num_key_value_heads"}) {
    expect(key, "0", key);
    expect(key, "-1", key);
    expect(key, "1e3", "an integer is expected");
    expect(key, "2.0", "an integer is expected");
    expect(key, "\"12\"", "an integer is expected, here is the string \"12\"");
    expect(key, "9223372036854775807", key);
  }
  expect("num_key_value_heads", "5", "5 does not divide the 32 query heads");
  expect("num_key_value_heads", "64", "64 does not divide the 32 query heads");
  expect("rope_theta", "0", "is no base of at least 1");
  expect("rope_theta", "\"1e6\"", "a number is expected");
  expect("activation_function", "\"gelu\"", "the activation \"gelu\"", kGpt2);
  expect("scale_attn_by_inverse_layer_idx", "true", "scale_attn_by_inverse_layer_idx", kGpt2);
  EXPECT_NE(refusal("[]"), "");
  tell(count);
}

}  // namespace
}  // namespace trireme
