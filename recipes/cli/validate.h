// What must hold between keys, and what is left to choose when others are known.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recipes/cli/recipe.h"

namespace trireme {

// Fills in what is "auto" and follows from the recipe alone: kv_heads, head_dim, ffn, norm,
// activation, position, chunks, decay, launch. Members that have a value keep it, so resolving
// twice changes nothing. head_dim stays 0 when hidden is not a multiple of heads. Not resolved
// here, for they depend on data or machine: model.vocab, precision.compute, parallel.threads.
void resolve(Recipe& recipe, std::optional<bool> under_launcher = std::nullopt);

struct CrossProblem {
  // Keys that take part, the one to blame first. Not told when one of them is already ill.
  std::vector<std::string> keys;
  std::string text;  // names keys, values and legal values
};

struct CrossCheck {
  std::optional<bool> under_launcher;
  std::int64_t list_entries = 0;  // of the model: embedding, blocks, head
  bool needs_data = false;
};

// All problems of a resolved recipe.
std::vector<CrossProblem> cross_problems(const Recipe& recipe, const CrossCheck& check);
// Of them those between the keys that cut or move memory: zero, offload, recompute.partition.
std::vector<CrossProblem> memory_problems(const Recipe& recipe);

// The numbers from 1 to n that divide n, ascending.
std::vector<std::int64_t> divisors(std::int64_t n);

}  // namespace trireme
