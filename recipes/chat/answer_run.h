// One answer from a serving engine, on the thread that asks: texts as they come, its end, and how
// long both took.
//
// An answer that comes to the end of the context may go on: `slide` says with which tokens, and the
// rest is a request of its own. Up to there its tokens are those of the same request to a server
// (trireme serve): same engine, same draws.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "recipes/api/api_request.h"
#include "recipes/chat/answer_settings.h"

namespace trireme {

struct AnswerJob {
  std::vector<std::int32_t> prompt;
  AnswerSettings settings = {};
  std::vector<std::int32_t> ends = {};
  bool skip_special = true;
  // Called when the context is full, with what was said: the tokens to go on with, fewer than the
  // context has; none, or no function: the answer ends there.
  std::function<std::vector<std::int32_t>(std::span<const std::int32_t> said)> slide = {};
  std::function<void(const std::string&)> say = {};  // more of the text
  std::function<bool()> interrupted = {};            // asked before each pass
};

struct AnswerEnd {
  std::string text;
  std::vector<std::int32_t> ids;
  // kStop: an end token or a stop string; kLength: `tokens`, or the context with context_full;
  // kCancelled: interrupted, what was said until then is here.
  FinishReason reason = FinishReason::kLength;
  bool context_full = false;
  std::string stop, error;
  std::int64_t prompt_tokens = 0, cached_tokens = 0;  // of the first request
  std::int64_t used = 0;                              // of the context, at the end
  double first_seconds = 0;                           // until the first token
  double reply_seconds = 0;                           // from there to the last one
};

// The engine must be at rest: it is stepped here.
AnswerEnd answer(ServeEngine& engine, const ServedModel& model, const AnswerJob& job);

// What is kept of a text that goes on beyond the context: `start`, if it began so, and its last
// tokens, so that `more` tokens, or half of a context, have room behind them.
std::vector<std::int32_t> last_tokens(std::span<const std::int32_t> ids, std::int64_t context,
                                      std::int64_t more, std::int64_t kept_first = 0);

}  // namespace trireme
