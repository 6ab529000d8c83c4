// One text that is being continued, as the scheduler sees it.
#pragma once

#include <cstdint>
#include <vector>

#include "recipes/serve/page_pool.h"

namespace trireme {

struct ServedSequence {
  std::uint64_t number = 0;              // in order of arrival
  std::uint64_t client = 0;              // who asks: clients take turns
  std::vector<std::int32_t> tokens;      // prompt and output
  std::int64_t prompt = 0;               // tokens of the prompt
  std::int64_t most = 0;                 // tokens that it may ever have
  std::int64_t salt = 0;                 // of shared prefixes
  bool shares_prefix = true;             // false: every token is computed (logits of the prompt)
  std::uint64_t waits_for = 0;           // another sequence's prompt, not 0: sibling choices
  std::vector<std::int32_t> pages = {};  // of its first tokens
  int replica = 0;                       // whose pages
  std::int64_t cached = 0;     // tokens that are in them, or will be when passes in flight are done
  std::int64_t computed = 0;   // that are
  std::int64_t in_flight = 0;  // passes that have rows of it
  PagePool::Prefix prefix = 0;   // published so far
  std::int64_t published = 0;    // pages
  std::int64_t prefix_hits = 0;  // tokens that were found instead of computed, first time
  std::int64_t preemptions = 0;
  bool paused = false;     // does not run until it is resumed
  std::uint64_t turn = 0;  // in order of the first admission; 0: not yet

  std::int64_t length() const { return std::ssize(tokens); }
  std::int64_t left() const { return length() - cached; }  // tokens to compute now
};

}  // namespace trireme
