// Rows of the key table: lora.
#include "recipes/cli/keys.h"

namespace trireme {

std::vector<Key> lora_keys() {
  return {
      {.section = "lora",
       .name = "rank",
       .type = KeyType::kCount,
       .at = [](Recipe& r) -> std::int64_t& { return r.lora.rank; },
       .initial = "off",
       .min = 1,
       .max = 65536,
       .zero_word = "off",
       .help = "Columns between the two matrices of an adapter (PEFT's r). With a rank everything "
               "but the adapters is frozen: kept in precision.compute, without gradients, masters "
               "and moments."},
      {.section = "lora",
       .name = "alpha",
       .type = KeyType::kNumber,
       .at = [](Recipe& r) -> double& { return r.lora.alpha; },
       .initial = "16",
       .min = 0,
       .max = 1e6,
       .above_min = true,
       .help = "Adapters are multiplied by alpha / rank (PEFT's lora_alpha)."},
      {.section = "lora",
       .name = "rslora",
       .type = KeyType::kBool,
       .at = [](Recipe& r) -> bool& { return r.lora.rslora; },
       .initial = "false",
       .help = "By alpha / sqrt(rank) instead (PEFT's use_rslora)."},
      {.section = "lora",
       .name = "targets",
       .type = KeyType::kText,
       .at = [](Recipe& r) -> std::string& { return r.lora.targets; },
       .initial = "all-linear",
       .help = "Linears with an adapter, by the names that PEFT knows, with commas between them: "
               "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj, for model.family = gpt2 "
               "c_attn,c_proj,c_fc (or attn.c_proj, mlp.c_proj); all-linear: all of them, not the "
               "head."},
      {.section = "lora",
       .name = "dropout",
       .type = KeyType::kNumber,
       .at = [](Recipe& r) -> double& { return r.lora.dropout; },
       .initial = "0",
       .min = 0,
       .max = 1,
       .below_max = true,
       .supported = {"0"},
       .help = "Probability of dropping an adapter's input (PEFT's lora_dropout)."},
  };
}

}  // namespace trireme
