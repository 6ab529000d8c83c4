// Writing a list of allocations: sizes that carry their formula, and a script that knows what is
// taken. Internal to layer_memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "recipes/memory/layer_memory.h"

namespace trireme {

// A number with its text, so that the published formula and the bytes cannot differ.
struct Extent {
  std::string text;
  std::int64_t count = 0;
};
Extent operator*(const Extent& a, const Extent& b);

// Steps in program order. Names must be free when taken and taken when given back; anything else is
// a mistake in a list, and throws Error.
class MemoryScript {
 public:
  // A tensor that somebody else took and that this list gives back.
  void handed(const std::string& tensor, const Extent& bytes);
  void take(const std::string& tensor, const Extent& bytes);
  void give(const std::string& tensor);
  // The same storage goes on under another name.
  void rename(const std::string& from, const std::string& to);
  // The steps since the last cut; what is taken stays known.
  std::vector<MemoryStep> cut();
  // Ends a list: `left` must be what is taken, "" = nothing.
  void expect_only(const std::string& left) const;

 private:
  std::map<std::string, std::int64_t> taken_;
  std::vector<MemoryStep> steps_;
};

// Sizes of one use in the legend's letters, each as this rank holds it.
struct LayerSizes {
  // Throws Error when something cannot be cut over the ranks.
  LayerSizes(const ModelOptions& model, const LayerUse& use);

  bool alone, sharded;  // one tensor rank; rows are cut between the linears
  bool mixed;           // the compute type is narrower than the stream
  bool selective, dropout;
  bool qk_norm;
  Extent R, r, B;        // rows, this rank's rows, samples
  Extent C, K;           // hidden, inputs of a block of the mlp
  Extent qkv, heads, H;  // columns of qkv and of the attention output, heads
  Extent normed;         // query and key heads
  Extent up, F;          // columns of the up product and of the activation
  Extent V, n;           // vocabulary rows, rows of a chunk
  Extent stats;          // statistics of a row
  Extent w, c;           // bytes of an element
};

std::vector<MemoryStep> joined(std::vector<MemoryStep> first,
                               const std::vector<MemoryStep>& second);

// All lists of a block, from scripts that make(split) begins.
template <typename Script, typename Make>
LayerMemory block_memory(const Make& make) {
  LayerMemory memory;
  for (const bool split : {false, true}) {
    Script train = make(split);
    train.forward(true);
    memory.forward = train.list().cut();
    train.begin_backward();
    train.backward_input();
    memory.backward_input = train.list().cut();
    train.backward_weight();
    memory.backward_weight = train.list().cut();
    train.list().expect_only("input gradient");
    if (!split) memory.backward = joined(memory.backward_input, memory.backward_weight);
  }
  Script infer = make(false);
  infer.forward(false);
  memory.inference = infer.list().cut();
  infer.list().expect_only("output");
  return memory;
}

// By family: layer_memory_decoder.cpp, layer_memory_mlp.cpp, layer_memory_ends.cpp.
LayerMemory decoder_block_memory(const LayerSizes& sizes);
LayerMemory mlp_block_memory(const LayerSizes& sizes, const LayerUse& use);
LayerMemory embedding_memory(const ModelOptions& model, const LayerSizes& sizes,
                             const LayerUse& use);
LayerMemory head_memory(const ModelOptions& model, const LayerSizes& sizes);

}  // namespace trireme
