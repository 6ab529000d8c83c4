// A model is a list of layers made from one options struct. Pipelines, recomputation and ZeRO serve
// any such list; nothing below recipes/ knows what a Transformer is.
//
// Entry 0 embeds ids, the last one is the head with the loss, those between are blocks. Building an
// entry makes this tensor rank's part of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/nn/module.h"
#include "framework/nn/norm.h"
#include "pipeline/runner.h"
#include "recipes/models/tensor_moves.h"
#include "tensor_parallel/lora.h"
#include "tensor_parallel/regions.h"

namespace trireme {

enum class Family : std::uint8_t { kDecoder, kMlp };

struct ModelOptions {
  Family family = Family::kDecoder;
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  std::int64_t sequence = 0;   // tokens per sample
  std::int64_t positions = 0;  // rows of a learned position table, at least sequence; 0 = sequence
  NormKind norm = NormKind::kLayerNorm;
  double norm_eps = 1e-5;
  Activation activation = Activation::kGeluTanh;
  bool gated = false;
  bool bias = true;       // of every linear
  bool qkv_bias = false;  // of queries, keys and values although there is no other (Qwen 2)
  bool qk_norm = false;   // RMS norm of each query and key head before rotation (Qwen 3)
  bool rotary = false;    // else learned positions
  double rope_theta = 10000.0;
  RopeScaling rope_scaling = {};
  std::int64_t window = 0;        // tokens that a query sees, itself included; 0 = all before it
  bool scale_embeddings = false;  // rows of the embedding x sqrt(hidden) (Gemma)
  bool tie_embeddings = true;
  double dropout = 0;
  LoraOptions lora = {};  // adapters; what they stand beside is for whoever freezes parameters
};

// What building an entry on a rank needs.
struct BuildContext {
  TensorGroup tensor;
  bool sequence_parallel = false;
  bool split_ends = false;     // embedding and head are on different pipeline stages
  Parameter* table = nullptr;  // the embedding table, once built on this rank
};

struct LayerSpec {
  std::string name;          // "embedding", "layers.3", "head"
  double forward_flops = 0;  // per sample, of the whole layer over all tensor ranks
  bool recomputable = false;
  Cut output;  // what it hands on
  std::function<ModulePtr(BuildContext&)> build;
  TensorMoves moves;
};

// Throws Error for sizes that no rank layout could train (zero layers, odd rotary heads, ...).
std::vector<LayerSpec> layer_list(const ModelOptions& options);
std::vector<LayerSpec> decoder_layers(const ModelOptions& options);
std::vector<LayerSpec> mlp_layers(const ModelOptions& options);

// Logical parameters of the whole model: unpadded, tied ones once. Of those that `counts`, if it is
// given, says yes to by name.
std::int64_t logical_parameters(const ModelOptions& options,
                                const std::function<bool(const std::string&)>& counts = {});

// FLOPs of one training step per sample: 3 x forward (backward is twice the forward), causal
// attention counted as its lower half, recomputation not counted (model FLOPs, not hardware FLOPs).
// Matrices whose parameter is `frozen`, if that is given, have no gradient: 2 x their forward.
// Products of adapters are not counted.
double training_flops_per_sample(const ModelOptions& options, const std::vector<LayerSpec>& layers,
                                 const std::function<bool(const std::string&)>& frozen = {});

}  // namespace trireme
