// How fast a model reads prompts and writes text: the tests of llama-bench. Passes as serving makes
// them, with a cache and logits, without sampling.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "recipes/serve/model_runner.h"

namespace trireme {

struct BenchTest {
  std::int64_t prompt = 0;    // tokens of a prompt, in one go ...
  std::int64_t generate = 0;  // ... or tokens written one by one
  std::int64_t batch = 1;     // texts at a time, of all replicas together
  std::int64_t depth = 0;     // tokens that are in the cache before
  std::string name() const;   // pp512, tg128, tg128 x 8, tg128 @ d512
  std::int64_t tokens() const { return batch * (prompt + generate); }
};

// Seconds of each of `repeats` runs, after one that warms up. All ranks call it, world rank 0 gets
// them. Stages work on different texts at once, replicas have texts of their own, as in serving.
// `ends` is asked by rank 0 before each pass: once it says so no more begin, and there are the
// seconds of the runs that were whole.
std::vector<double> bench(const RankParts& rank, const BenchTest& test, int repeats,
                          const std::function<bool()>& ends = {});

// Bytes a second that `threads` threads read from host memory, the best of a few passes over a
// buffer of `bytes`.
double read_rate(std::int64_t bytes, int threads);

}  // namespace trireme
