// How a text longer than a model's context is cut, so that each token but the first is scored once.
// Pure functions.
#pragma once

#include <cstdint>

namespace trireme {

// Windows of T tokens, each `stride` behind the one before it, 1 <= stride <= T. A window scores
// the successors of its tokens that no window before it scored: with stride = T windows are
// disjoint, a smaller one slides, and every token but those of the first window is scored after at
// least T - stride + 1 tokens. (Megatron-LM's overlapping evaluation.)
struct ScoreWindows {
  std::int64_t tokens = 0;  // of the text, at least 2
  std::int64_t window = 0;  // T
  std::int64_t stride = 0;

  std::int64_t count() const;
  std::int64_t begin(std::int64_t k) const { return k * stride; }
  // Of window k: the token it sees last, plus one; and the tokens [first, last) that it scores.
  std::int64_t end(std::int64_t k) const;
  std::int64_t first_scored(std::int64_t k) const;
  std::int64_t last_scored(std::int64_t k) const { return end(k) + 1; }
};

}  // namespace trireme
