#include "recipes/huggingface/config_write.h"

#include "framework/base/error.h"

namespace trireme {

namespace {

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

Json llama(const Recipe& r, DType dtype) {
  const ModelSection& m = r.model;
  return Json::Object{{"architectures", Json::Array{"LlamaForCausalLM"}},
                      {"model_type", "llama"},
                      {"vocab_size", m.vocab},
                      {"hidden_size", m.hidden},
                      {"intermediate_size", m.ffn},
                      {"num_hidden_layers", m.layers},
                      {"num_attention_heads", m.heads},
                      {"num_key_value_heads", m.kv_heads},
                      {"head_dim", m.head_dim},
                      {"hidden_act", "silu"},
                      {"max_position_embeddings", r.batch.sequence},
                      {"rms_norm_eps", m.norm_eps},
                      {"rope_theta", m.rope_theta},
                      {"attention_bias", false},
                      {"mlp_bias", false},
                      {"tie_word_embeddings", m.tie_embeddings},
                      {"torch_dtype", torch_name(dtype)}};
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
  const ModelSection& m = r.model;
  const bool like_gpt2 = m.family == "gpt2" && m.norm == "layer" && m.activation == "gelu" &&
                         m.position == "learned" && m.kv_heads == m.heads &&
                         m.head_dim * m.heads == m.hidden;
  const bool like_llama =
      m.family == "llama" && m.norm == "rms" && m.activation == "swiglu" && m.position == "rotary";
  check(like_gpt2 || like_llama,
        "no Hugging Face family has a model with model.family = ", m.family, ", norm = ", m.norm,
        ", activation = ", m.activation, ", position = ", m.position, ", kv_heads = ", m.kv_heads,
        " of ", m.heads, " and head_dim = ", m.head_dim,
        "; gpt2 has layer, gelu, learned; llama has rms, swiglu, rotary");
  return like_gpt2 ? gpt2(r, dtype) : llama(r, dtype);
}

}  // namespace trireme
