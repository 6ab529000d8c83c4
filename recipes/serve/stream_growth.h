// How an engine serves a model whose weights are streamed: a pass reads them all, whether it has
// one row or hundreds, so as many answers as the cache has room for are made at a time (the
// opposite of what latency wants; arXiv 2303.06865, section 3).
#pragma once

#include "recipes/serve/serve_engine.h"

namespace trireme {

// Raises what nobody has chosen: `sequences`, to answers of kGrowTokens tokens that fit `pages`,
// and `budget`, so that all of them and a prompt go into a pass; waits up to a twentieth of the
// time that a disk of 1 GB/s needs for a pass, at most half a second.
struct ChosenByUser {
  bool sequences = false, budget = false;
};
inline constexpr std::int64_t kGrowTokens = 256;
ServeOptions grown_for(const WeightStreamShape& shape, std::int64_t pages, const ChosenByUser& user,
                       ServeOptions options);

}  // namespace trireme
