// How a token is chosen from a row of logits.
//
// The order is that of most servers: mask of end tokens until the least number of tokens, bias,
// penalties, temperature, min_p, top_k, top_p, softmax, draw. The draw is a function of (seed,
// choice, position) alone: it does not matter who shares the batch, under which layout the model
// runs, or whether the request was preempted. Defaults are the API's: everything off.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/backend/top_rows.h"
#include "framework/base/random.h"

namespace trireme {

struct Sampling {
  double temperature = 1;         // below 1e-5: the largest logit, lowest id of equals
  std::int64_t top_k = 0;         // 0 or -1: all
  double top_p = 1;               // in (0, 1]; keeps the token that crosses it
  double min_p = 0;               // drops tokens below min_p times the likeliest one's probability
  double repetition_penalty = 1;  // over prompt and output
  double presence_penalty = 0, frequency_penalty = 0;      // over the output
  std::vector<std::pair<std::int32_t, double>> bias = {};  // added to logits
  std::uint64_t seed = 0;
  int logprobs = -1;  // of how many tokens beside the chosen one; -1: none, not even of that

  bool greedy() const { return temperature < 1e-5; }
};

// Throws Error, naming the field, its value and the legal ones.
void check_sampling(const Sampling& s, std::int64_t vocab);

struct TokenLogprob {
  std::int32_t id = 0;
  float logprob = 0;  // natural, of the model's own distribution, before anything else
};

struct ChosenToken {
  std::int32_t id = 0;
  float logprob = 0;                   // if logprobs >= 0
  std::vector<TokenLogprob> top = {};  // likeliest first
};

struct SamplingContext {
  std::span<const std::int32_t> prompt, output;  // so far
  std::span<const std::int32_t> masked = {};     // ids that may not be chosen now
  std::uint64_t choice = 0;                      // of several answers to one request
};

// Throws Error if the logits are not finite numbers.
ChosenToken choose_token(std::span<const float> logits, const Sampling& s,
                         const SamplingContext& context);

// How many of a row's likeliest ids are enough to choose as from all of its logits; 0: only all
// are. Enough are, with m masked ids: m + 1 for the largest logit, m + top_k for top_k (min_p and
// top_p are applied within it), and as many as are reported; if they are at most kMostTop. Bias and
// penalties may lift any id, and without top_k all weigh: these need all logits.
std::int64_t enough_top(const Sampling& s, std::size_t masked);
// The same choice from so many. Log probabilities are those of all logits but for the rounding of
// the sum over several tensor ranks.
ChosenToken choose_token(const TopLogits& top, const Sampling& s, const SamplingContext& context);

// The likeliest `count` tokens of a row, and one named: what echo and logprobs report.
ChosenToken logprobs_of(std::span<const float> logits, std::int32_t id, int count);

// Key of the draws of a request's choice; the counter is the position in the output.
RngKey sampling_key(std::uint64_t seed, std::uint64_t choice);

}  // namespace trireme
