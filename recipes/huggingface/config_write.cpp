#include "recipes/huggingface/config_write.h"

#include <algorithm>

#include "framework/base/error.h"

namespace trireme {

namespace {

// What a family's models are, as far as families differ.
struct FamilySwitches {
  const char *type, *architecture;
  const char *norm, *activation, *bias, *position;
  bool qk_norm = false, scale_embeddings = false;
  bool windowed = false, scaled_rope = true;
  bool free_head_dim = true, grouped = true;  // head_dim is no hidden / heads; fewer key heads
};

// In this order: the first that fits. A window is Mistral's, or of the newer Qwens.
constexpr FamilySwitches kFamilies[] = {
    {"gpt2", "GPT2LMHeadModel", "layer", "gelu", "all", "learned", false, false, false, false,
     false, false},
    {"llama", "LlamaForCausalLM", "rms", "swiglu", "none", "rotary"},
    {"mistral", "MistralForCausalLM", "rms", "swiglu", "none", "rotary", false, false, true},
    {"qwen2", "Qwen2ForCausalLM", "rms", "swiglu", "qkv", "rotary", false, false, true, true,
     false},
    {"qwen3", "Qwen3ForCausalLM", "rms", "swiglu", "none", "rotary", true, false, true},
    {"gemma", "GemmaForCausalLM", "rms1", "geglu", "none", "rotary", false, true}};

bool fits(const FamilySwitches& f, const Recipe& r) {
  const ModelSection& m = r.model;
  return m.family != "mlp" && m.norm == f.norm && m.activation == f.activation &&
         m.bias == f.bias && m.position == f.position && m.qk_norm == f.qk_norm &&
         m.scale_embeddings == f.scale_embeddings && (f.windowed || m.window == 0) &&
         (f.scaled_rope || m.rope_scaling == "none") &&
         (f.free_head_dim || m.head_dim * m.heads == m.hidden) &&
         (f.grouped || m.kv_heads == m.heads);
}

Json gpt2(const Recipe& r, DType dtype) {
  const ModelSection& m = r.model;
  return Json::Object{{"architectures", Json::Array{"GPT2LMHeadModel"}},
                      {"model_type", "gpt2"},
                      {"vocab_size", m.vocab},
                      {"n_positions", m.positions > 0 ? m.positions : r.batch.sequence},
                      {"n_embd", m.hidden},
                      {"n_layer", m.layers},
                      {"n_head", m.heads},
                      {"n_inner", m.ffn},
                      {"activation_function", "gelu_new"},
                      {"layer_norm_epsilon", m.norm_eps},
                      {"tie_word_embeddings", m.tie_embeddings},
                      {"torch_dtype", torch_name(dtype)}};
}

// The context: what was trained, or what the scaling of positions was made for.
std::int64_t context_of(const Recipe& r, const RopeScalingWords& scaling) {
  if (scaling.kind != "llama3") return r.batch.sequence;
  return std::max(r.batch.sequence,
                  static_cast<std::int64_t>(scaling.numbers[0] * scaling.numbers[3]));
}

Json scaling_json(const RopeScalingWords& scaling) {
  Json::Object object{{"rope_type", scaling.kind}, {"factor", scaling.numbers[0]}};
  if (scaling.kind == "llama3") {
    object.emplace_back("low_freq_factor", scaling.numbers[1]);
    object.emplace_back("high_freq_factor", scaling.numbers[2]);
    object.emplace_back("original_max_position_embeddings",
                        static_cast<std::int64_t>(scaling.numbers[3]));
  }
  return object;
}

Json llama_like(const FamilySwitches& f, const Recipe& r, DType dtype) {
  const ModelSection& m = r.model;
  const RopeScalingWords scaling = parse_rope_scaling(m.rope_scaling);
  const bool gemma = m.activation == "geglu", qwen = std::string(f.type).starts_with("qwen");
  Json::Object object{{"architectures", Json::Array{f.architecture}},
                      {"model_type", f.type},
                      {"vocab_size", m.vocab},
                      {"hidden_size", m.hidden},
                      {"intermediate_size", m.ffn},
                      {"num_hidden_layers", m.layers},
                      {"num_attention_heads", m.heads},
                      {"num_key_value_heads", m.kv_heads},
                      {"head_dim", m.head_dim},
                      {"hidden_act", gemma ? "gelu_pytorch_tanh" : "silu"},
                      {"max_position_embeddings", context_of(r, scaling)},
                      {"rms_norm_eps", m.norm_eps},
                      {"rope_theta", m.rope_theta},
                      {"tie_word_embeddings", m.tie_embeddings},
                      {"torch_dtype", torch_name(dtype)}};
  if (gemma) object.emplace_back("hidden_activation", "gelu_pytorch_tanh");
  if (std::string(f.type) != "qwen2" && std::string(f.type) != "mistral")
    object.emplace_back("attention_bias", false);
  if (std::string(f.type) == "llama") object.emplace_back("mlp_bias", false);
  if (scaling.kind != "none") object.emplace_back("rope_scaling", scaling_json(scaling));
  if (f.windowed) object.emplace_back("sliding_window", m.window > 0 ? Json(m.window) : Json());
  if (qwen) object.emplace_back("use_sliding_window", m.window > 0);
  if (qwen && m.window > 0) object.emplace_back("max_window_layers", 0);
  return object;
}

}  // namespace

std::string torch_name(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return "bfloat16";
    case DType::kF16:
      return "float16";
    case DType::kF64:
      return "float64";
    default:
      return "float32";
  }
}

Json hf_config_of(const Recipe& r, DType dtype) {
  for (const FamilySwitches& family : kFamilies)
    if (fits(family, r))
      return family.position == std::string("learned") ? gpt2(r, dtype)
                                                       : llama_like(family, r, dtype);
  const ModelSection& m = r.model;
  fail("no Hugging Face family has a model with model.norm = ", m.norm,
       ", activation = ", m.activation, ", bias = ", m.bias, ", position = ", m.position,
       ", qk_norm = ", m.qk_norm ? "true" : "false",
       ", scale_embeddings = ", m.scale_embeddings ? "true" : "false",
       ", window = ", m.window > 0 ? std::to_string(m.window) : "none",
       ", rope_scaling = ", m.rope_scaling, ", kv_heads = ", m.kv_heads, " of ", m.heads,
       " and head_dim = ", m.head_dim,
       "; gpt2 has layer, gelu, all, learned; llama and mistral have rms, swiglu, none, rotary, ",
       "qwen2 with bias = qkv, qwen3 with qk_norm; gemma has rms1, geglu, none, rotary and scales");
}

}  // namespace trireme
