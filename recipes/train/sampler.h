// Text from a model, over all ranks of a data coordinate. A model that is being trained runs the
// prefix again for each token: its memory is promised to training. One that is only looked at
// (EngineOptions::forward_only) keeps keys and values for as long as the window holds the text.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "recipes/models/engine.h"

namespace trireme {

struct SamplingOptions {
  double temperature = 0;  // 0 = greedy
  std::int64_t top_k = 0;  // 0 = all
  std::uint64_t seed = 0;
  std::int64_t request = 0;                     // another one, other draws
  std::vector<std::int32_t> ends = {};          // tokens that end the text; they are not part of it
  std::function<void(std::int32_t)> told = {};  // of each token of the text, as it comes
};

// The token after these logits; only the first `vocab` count. Greedy takes the lowest id of equals.
// `position` keys the draw, so a text depends on (seed, request, position) alone.
std::int32_t choose(const std::vector<double>& logits, std::int64_t vocab,
                    const SamplingOptions& options, std::int64_t position);

// `count` tokens after `prompt`, the same on all ranks of data coordinate 0, which all call this;
// others must not. The model sees the last `window` tokens. Ends early
// before one of options.ends, and where logits are not finite.
std::vector<std::int32_t> sample(Engine& engine, Mesh& mesh, Backend& backend,
                                 std::vector<std::int32_t> prompt, std::int64_t count,
                                 std::int64_t window, std::int64_t vocab,
                                 const SamplingOptions& options);

}  // namespace trireme
