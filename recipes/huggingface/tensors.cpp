#include "recipes/huggingface/tensors.h"

#include <array>
#include <string_view>

namespace trireme {

namespace {

struct Row {
  std::string_view ours, theirs;
  bool matrix_transposed = false;  // of .weight
  std::int64_t parts = 1, part = 0;
};

// Ends of names; what stands before them is the same in both columns' models.
constexpr std::array<Row, 14> kLlama = {{{"embedding.table", "model.embed_tokens.weight"},
                                         {"head.weight", "lm_head.weight"},
                                         {"norm.weight", "model.norm.weight"},
                                         {"norm1", "input_layernorm"},
                                         {"norm2", "post_attention_layernorm"},
                                         {"attention.q", "self_attn.q_proj"},
                                         {"attention.k", "self_attn.k_proj"},
                                         {"attention.v", "self_attn.v_proj"},
                                         {"attention.output", "self_attn.o_proj"},
                                         {"attention.q_norm", "self_attn.q_norm"},
                                         {"attention.k_norm", "self_attn.k_norm"},
                                         {"mlp.gate", "mlp.gate_proj"},
                                         {"mlp.up", "mlp.up_proj"},
                                         {"mlp.down", "mlp.down_proj"}}};
constexpr std::array<Row, 13> kGpt2 = {{{"embedding.table", "wte.weight"},
                                        {"embedding.positions", "wpe.weight"},
                                        {"head.weight", "lm_head.weight"},
                                        {"norm.weight", "ln_f.weight"},
                                        {"norm.bias", "ln_f.bias"},
                                        {"norm1", "ln_1"},
                                        {"norm2", "ln_2"},
                                        {"attention.q", "attn.c_attn", true, 3, 0},
                                        {"attention.k", "attn.c_attn", true, 3, 1},
                                        {"attention.v", "attn.c_attn", true, 3, 2},
                                        {"attention.output", "attn.c_proj", true},
                                        {"mlp.up", "mlp.c_fc", true},
                                        {"mlp.down", "mlp.c_proj", true}}};

constexpr std::string_view kLayers = "layers.";

// "layers.3.norm1.weight" of a block: "3", "norm1", ".weight". Others: nothing.
struct BlockName {
  std::string_view layer, module, kind;
};
std::optional<BlockName> block_name(std::string_view name) {
  if (name.substr(0, kLayers.size()) != kLayers) return std::nullopt;
  name.remove_prefix(kLayers.size());
  const std::size_t dot = name.find('.'), last = name.rfind('.');
  if (dot == std::string_view::npos || last <= dot) return std::nullopt;
  return BlockName{name.substr(0, dot), name.substr(dot + 1, last - dot - 1), name.substr(last)};
}

template <typename Rows>
const Row* row_of(const Rows& rows, std::string_view ours) {
  for (const Row& row : rows)
    if (!ours.empty() && row.ours == ours) return &row;
  return nullptr;
}

}  // namespace

std::optional<HfPlace> hf_place(HfNaming naming, const std::string& logical) {
  const bool gpt2 = naming == HfNaming::kGpt2;
  const auto find = [&](std::string_view ours) {
    return gpt2 ? row_of(kGpt2, ours) : row_of(kLlama, ours);
  };
  const std::optional<BlockName> block = block_name(logical);
  const Row* row = find(block ? block->module : std::string_view(logical));
  if (row == nullptr) return std::nullopt;
  HfPlace place{.name = std::string(row->theirs), .parts = row->parts, .part = row->part};
  if (!block) return place;
  place.transposed = row->matrix_transposed && block->kind == ".weight";
  place.name = std::string(gpt2 ? "h." : "model.layers.").append(block->layer).append(".") +
               place.name + std::string(block->kind);
  return place;
}

bool is_hf_buffer(const std::string& name) {
  for (const std::string_view end : {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"})
    if (name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0)
      return true;
  return false;
}

}  // namespace trireme
