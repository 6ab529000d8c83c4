// Rows of the key table: inference.
#include "recipes/cli/keys.h"

namespace trireme {

std::vector<Key> inference_keys() {
  return {
      {.section = "inference",
       .name = "weights",
       .type = KeyType::kChoice,
       .at = [](Recipe& r) -> std::string& { return r.inference.weights; },
       .initial = "full",
       .values = {"full", "int8", "int4"},
       .help = "How a model that is only run holds the matrices of its linears, its embedding and "
               "its head: in precision.compute, or quantized while it is loaded, in 8 bits (a "
               "scale for each output) or in 4 (a scale and a minimum for 64 inputs; tables of the "
               "vocabulary in 8). Training holds them in full."},
  };
}

}  // namespace trireme
