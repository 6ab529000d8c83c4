// Text from a model that is being trained, over all ranks of a data coordinate. The prefix runs
// again for each token: the memory for keys and values is promised to training. What answers users
// is serve/serve_engine.h.
#pragma once

#include <cstdint>
#include <vector>

#include "recipes/models/engine.h"

namespace trireme {

struct SamplingOptions {
  double temperature = 0;  // 0 = greedy
  std::int64_t top_k = 0;  // 0 = all
  std::uint64_t seed = 0;
  std::int64_t request = 0;             // another one, other draws
  std::vector<std::int32_t> ends = {};  // tokens that end the text; they are not part of it
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
