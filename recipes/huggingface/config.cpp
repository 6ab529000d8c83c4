#include "recipes/huggingface/config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>

#include "framework/base/error.h"
#include "recipes/huggingface/config_fields.h"

namespace trireme {

namespace {

constexpr std::array kTypes = {"gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma"};

// Keys of every family that change nothing here: names, ids that the tokenizer and
// generation_config.json tell too, settings of the package and of its training; what older versions
// of the package wrote out for every model, settings of generation from before
// generation_config.json among it.
const std::vector<std::string> kHarmless = {"architectures",
                                            "_name_or_path",
                                            "_model_name_or_path",
                                            "transformers_version",
                                            "use_cache",
                                            "bos_token_id",
                                            "eos_token_id",
                                            "pad_token_id",
                                            "unk_token_id",
                                            "initializer_range",
                                            "pretraining_tp",
                                            "attention_dropout",
                                            "attn_pdrop",
                                            "embd_pdrop",
                                            "resid_pdrop",
                                            "hidden_dropout",
                                            "n_ctx",
                                            "_attn_implementation",
                                            "_attn_implementation_autoset",
                                            "attn_implementation",
                                            "cache_implementation",
                                            "transformers.js_config",
                                            "is_llama_config",
                                            "summary_type",
                                            "summary_use_proj",
                                            "summary_activation",
                                            "summary_first_dropout",
                                            "summary_proj_to_labels",
                                            "task_specific_params",
                                            "gradient_checkpointing",
                                            "output_attentions",
                                            "output_hidden_states",
                                            "return_dict",
                                            "id2label",
                                            "label2id",
                                            "problem_type",
                                            "unsloth_version",
                                            "unsloth_fixed",
                                            "trl_version",
                                            "model_type",
                                            "reorder_and_upcast_attn",
                                            "is_encoder_decoder",
                                            "chunk_size_feed_forward",
                                            "use_mrope",
                                            "is_decoder",
                                            "sep_token_id",
                                            "decoder_start_token_id",
                                            "tokenizer_class",
                                            "prefix",
                                            "_num_labels",
                                            "num_labels",
                                            "finetuning_task",
                                            "torchscript",
                                            "use_bfloat16",
                                            "tf_legacy_loss",
                                            "max_sequence_length",
                                            "_flash_attn_2_enabled",
                                            "max_length",
                                            "min_length",
                                            "do_sample",
                                            "early_stopping",
                                            "num_beams",
                                            "num_beam_groups",
                                            "diversity_penalty",
                                            "temperature",
                                            "top_k",
                                            "top_p",
                                            "typical_p",
                                            "repetition_penalty",
                                            "length_penalty",
                                            "no_repeat_ngram_size",
                                            "encoder_no_repeat_ngram_size",
                                            "bad_words_ids",
                                            "num_return_sequences",
                                            "output_scores",
                                            "return_dict_in_generate",
                                            "forced_bos_token_id",
                                            "forced_eos_token_id",
                                            "remove_invalid_values",
                                            "exponential_decay_length_penalty",
                                            "suppress_tokens",
                                            "begin_suppress_tokens",
                                            "cross_attention_hidden_size",
                                            "tie_encoder_decoder"};

// Of rope_scaling and rope_parameters; what another type needs is told by its name.
constexpr std::array<std::string_view, 13> kScaling = {"rope_type",
                                                       "type",
                                                       "rope_theta",
                                                       "factor",
                                                       "low_freq_factor",
                                                       "high_freq_factor",
                                                       "original_max_position_embeddings",
                                                       "partial_rotary_factor",
                                                       "beta_fast",
                                                       "beta_slow",
                                                       "attention_factor",
                                                       "short_factor",
                                                       "long_factor"};

class Reader {
 public:
  Reader(const Json& config, const std::string& name) : fields_(config, name) {
    model_.type = config.at("model_type", name).text(fields_.what("model_type"));
    bool known = false;
    for (const char* type : kTypes) known = known || model_.type == type;
    check(known, fields_.what("model_type"), ": \"", model_.type, "\" is none of ",
          hf_model_types());
  }

  HfModel read() {
    fields_.ignore(kHarmless);
    refuse_foreign();
    model_.type == "gpt2" ? gpt2() : llama_like();
    dtype();
    fields_.finish();
    return std::move(model_);
  }

 private:
  void set(const std::string& key, std::string value) {
    model_.keys.emplace_back(key, std::move(value));
  }
  void set(const std::string& key, std::int64_t value) { set(key, std::to_string(value)); }
  void set_number(const std::string& key, double value) { set(key, number_text(value)); }
  // As a recipe spells it: whole numbers without a point.
  static std::string number_text(double value) {
    std::string text = to_text(Json(value));
    if (text.ends_with(".0")) text.resize(text.size() - 2);
    return text;
  }
  void set_bool(const std::string& key, bool value) {
    set(key, std::string(value ? "true" : "false"));
  }

  void refuse_foreign() {
    for (const char* key : {"auto_map", "quantization_config", "compression_config"})
      if (fields_.find(key))
        fields_.problem(
            join(key, " is not supported: it needs ",
                 std::string(key) == "auto_map" ? "code of its own" : "its own kernels"));
    fields_.expect("pruned_heads", Json(Json::Object{}));
    fields_.expect("add_cross_attention", false);
  }

  void gpt2() {
    set("family", "gpt2");
    set("layers", fields_.integer("n_layer"));
    const std::int64_t hidden = fields_.integer("n_embd");
    set("hidden", hidden);
    set("heads", fields_.integer("n_head"));
    set("ffn", fields_.integer_or("n_inner", 4 * hidden));
    model_.vocab = fields_.integer("vocab_size", 2);
    set("vocab", model_.vocab);
    model_.context = fields_.integer("n_positions");
    set("positions", model_.context);
    set_number("norm_eps", fields_.number_or("layer_norm_epsilon", 1e-5));
    set("activation", plain_activation(fields_.text_or("activation_function", "gelu_new")));
    set_bool("tie_embeddings", fields_.boolean_or("tie_word_embeddings", true));
    fields_.expect("scale_attn_weights", true);
    fields_.expect("scale_attn_by_inverse_layer_idx", false);
  }

  std::string plain_activation(const std::string& name) {
    if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return "gelu";
    fields_.problem(
        join("the activation \"", name, "\" is not supported; gelu_new and gelu_pytorch_tanh are"));
    return "gelu";
  }

  void llama_like() {
    const bool gemma = model_.type == "gemma", qwen3 = model_.type == "qwen3";
    set("family", "llama");
    layers_ = fields_.integer("num_hidden_layers");
    set("layers", layers_);
    const std::int64_t hidden = fields_.integer("hidden_size");
    set("hidden", hidden);
    const std::int64_t heads = fields_.integer("num_attention_heads");
    set("heads", heads);
    const std::int64_t kv_heads = fields_.integer_or("num_key_value_heads", heads);
    check(heads % kv_heads == 0, fields_.what("num_key_value_heads"), ": ", kv_heads,
          " does not divide the ", heads, " query heads");
    set("kv_heads", kv_heads);
    // Where the file is silent.
    const std::int64_t own = gemma ? 256 : qwen3 ? 128 : hidden / heads;
    const std::int64_t head_dim = fields_.integer_or("head_dim", own);
    check(fields_.find("head_dim") || own != hidden / heads || hidden % heads == 0,
          fields_.what("hidden_size"), ": ", hidden, " is no multiple of the ", heads,
          " heads, and there is no head_dim");
    set("head_dim", head_dim);
    set("ffn", fields_.integer("intermediate_size"));
    model_.vocab = fields_.integer("vocab_size", 2);
    set("vocab", model_.vocab);
    model_.context = fields_.integer("max_position_embeddings");
    set_number("norm_eps", fields_.number_or("rms_norm_eps", 1e-6));
    set_bool("tie_embeddings", fields_.boolean_or("tie_word_embeddings", gemma));
    if (gemma) {
      set("norm", "rms1");
      set_bool("scale_embeddings", true);
    }
    if (qwen3) set_bool("qk_norm", true);
    activation(gemma);
    biases();
    positions();
    window();
    fields_.expect("rope_interleaved", false);
  }

  void activation(bool gemma) {
    const std::string act = fields_.text_or("hidden_act", gemma ? "gelu_pytorch_tanh" : "silu");
    // Gemma's first files say "gelu" and mean the tanh form, as hidden_activation tells later.
    const std::string later =
        fields_.text_or("hidden_activation", gemma ? "gelu_pytorch_tanh" : act);
    const bool meant = !gemma || act == "gelu" || act == "gelu_pytorch_tanh";
    if (!gemma && later == "silu")
      set("activation", "swiglu");
    else if (later == "gelu_pytorch_tanh" && meant)
      set("activation", "geglu");
    else
      fields_.problem(join("hidden_act = \"", act, "\" is not supported; silu is",
                           gemma ? ", and gelu_pytorch_tanh" : ""));
  }

  void biases() {
    if (model_.type == "qwen2") set("bias", "qkv");
    fields_.expect("attention_bias", false);
    fields_.expect("mlp_bias", false);
    if (model_.type == "qwen2") fields_.expect("qkv_bias", true);
  }

  // Old files have rope_theta and rope_scaling, newer ones rope_parameters with both.
  void positions() {
    constexpr double kUsualTheta = 10000;
    const Json* scaling = fields_.find("rope_scaling");
    double theta = fields_.number_or("rope_theta", kUsualTheta);
    if (const Json* parameters = fields_.find("rope_parameters")) {
      parameters->object(fields_.what("rope_parameters"));
      if (scaling) same_positions(*scaling, *parameters, theta);
      scaling = parameters;
      if (const Json* newer = parameters->find("rope_theta"))
        theta = newer->number(fields_.what("rope_parameters.rope_theta"));
    }
    check(std::isfinite(theta) && theta >= 1, fields_.what("rope_theta"), ": ", theta,
          " is no base of at least 1");
    set_number("rope_theta", theta);
    fields_.expect("partial_rotary_factor", 1.0);
    if (scaling) scale_positions(*scaling);
  }

  // Of a file that has both, versions of `transformers` take the one or the other.
  void same_positions(const Json& older, const Json& newer, double theta) {
    const auto meant = [&](const Json& from, const std::string& what) {
      std::map<std::string, std::string> fields{{"rope_theta", number_text(theta)},
                                                {"rope_type", "\"default\""}};
      for (const auto& [key, value] : from.object(fields_.what(what))) {
        const bool number = value.is(Json::Kind::kInteger) || value.is(Json::Kind::kReal);
        if (!value.is_null())
          fields[key == "type" ? "rope_type" : key] =
              number ? number_text(value.number(key)) : to_text(value);
      }
      return fields;
    };
    if (older.object(fields_.what("rope_scaling")).empty()) return;
    if (meant(older, "rope_scaling") != meant(newer, "rope_parameters"))
      fields_.problem(
          "rope_scaling and rope_parameters are both there and say different things; "
          "take the one that is wrong out");
  }

  void scale_positions(const Json& scaling) {
    const std::string what = fields_.what("rope_scaling");
    for (const auto& [key, value] : scaling.object(what))
      if (!value.is_null() && std::find(kScaling.begin(), kScaling.end(), key) == kScaling.end())
        fields_.problem(
            join("rope_scaling.", key, " = ", to_text(value).substr(0, 200), " is not known"));
    const Json* type = scaling.find("rope_type");
    if (!type) type = scaling.find("type");
    const std::string kind = type ? type->text(what + ".rope_type") : "default";
    const Json* partial = scaling.find("partial_rotary_factor");
    if (partial && partial->number(what + ".partial_rotary_factor") != 1)
      fields_.problem("rope_scaling.partial_rotary_factor: only 1 is supported");
    const auto number = [&](const char* key) {
      const double value = scaling.at(key, what).number(what + "." + key);
      check(std::isfinite(value) && value > 0, what, ".", key, ": ", value, " is not positive");
      return number_text(value);
    };
    if (kind == "default") return;
    if (kind == "linear") return set("rope_scaling", "linear:" + number("factor"));
    if (kind == "llama3") {
      std::string parameters;
      for (const char* key :
           {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"})
        parameters += (parameters.empty() ? "llama3:" : ",") + number(key);
      return set("rope_scaling", parameters);
    }
    fields_.problem(join("rope_scaling of the type \"", kind,
                         "\" is not supported; default, linear and llama3 are"));
  }

  // A window as long as the context is none. Mistral has one unless the file says null, and so have
  // Qwen's that use it.
  void window() {
    constexpr std::int64_t kUsual = 4096;
    const bool mistral = model_.type == "mistral";
    const bool told = fields_.has("sliding_window");
    std::int64_t window = fields_.integer_or("sliding_window", told ? 0 : kUsual);
    if (!fields_.boolean_or("use_sliding_window", mistral)) window = 0;
    if (!fields_.find("layer_types")) first_windows(window);
    if (const Json* types = fields_.find("layer_types")) {
      const std::string what = fields_.what("layer_types");
      bool full = false, sliding = false;
      for (const Json& layer : types->array(what)) {
        const std::string& kind = layer.text(what);
        full = full || kind == "full_attention";
        sliding = sliding || kind == "sliding_attention";
        if (kind != "full_attention" && kind != "sliding_attention")
          fields_.problem("layer_types: \"" + kind + "\" is not supported; full_attention is");
      }
      if (full && sliding)
        fields_.problem("layer_types: full and sliding attention in one model is not supported");
      if (!sliding) window = 0;
    }
    fields_.ignore({"max_window_layers"});
    if (window > 0 && window < model_.context) set("window", window);
  }

  // Qwen's older files: layers from max_window_layers on have the window.
  void first_windows(std::int64_t& window) {
    constexpr std::int64_t kQwen = 28;
    const bool told = fields_.find("max_window_layers") != nullptr;
    if (window == 0 || (!told && model_.type == "mistral")) return;
    const std::int64_t from = told ? fields_.integer("max_window_layers", 0) : kQwen;
    if (from == 0) return;
    if (from < layers_)
      fields_.problem(join("max_window_layers = ", from,
                           ": full and sliding attention in one model ", "is not supported"));
    window = 0;
  }

  void dtype() {
    const std::string old = fields_.text_or("torch_dtype", "");
    const std::string name = fields_.text_or("dtype", old);
    if (name == "float32") model_.dtype = DType::kF32;
    if (name == "float16") model_.dtype = DType::kF16;
    if (name == "bfloat16") model_.dtype = DType::kBF16;
    if (name == "float64") model_.dtype = DType::kF64;
    if (!name.empty() && !model_.dtype)
      fields_.problem(join("dtype = \"", name,
                           "\" is not supported; float32, float16, bfloat16 and float64 are"));
  }

  ConfigFields fields_;
  HfModel model_;
  std::int64_t layers_ = 0;
};

}  // namespace

std::string hf_model_types() {
  std::string text;
  for (const char* type : kTypes) text += (text.empty() ? "" : ", ") + std::string(type);
  return text;
}

HfModel read_hf_config(const Json& config, const std::string& name) {
  config.object(name);
  return Reader(config, name).read();
}

}  // namespace trireme
