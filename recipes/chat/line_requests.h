// Lines of `trireme generate --input`: each is a request, an object with `prompt` (a text to be
// continued) or `messages` (to be answered), with fields of the completions API beside them that
// replace what the command line says:
//   max_tokens, temperature, top_p, top_k, min_p, repetition_penalty, presence_penalty,
//   frequency_penalty, seed, stop, stop_token_ids, include_stop_str_in_output, ignore_eos,
//   min_tokens, logit_bias, skip_special_tokens, add_special_tokens (of a prompt)
// They mean what they mean to the server. Fields of the API that need another kind of answer (n,
// logprobs, stream, tools, ...) are refused; all others are the user's own, and are kept.
#pragma once

#include <string>
#include <string_view>

#include "recipes/api/api_request.h"
#include "recipes/chat/answer_settings.h"

namespace trireme {

struct LineRequest {
  Json::Object given;  // all members of the line
  GenerationRequest request;
};

// Throws Error: what is wrong, "column 17: ..." for what is no JSON. An answer that may be longer
// than the context has room for is cut there, unless the line itself gives max_tokens.
LineRequest read_line_request(std::string_view line, const ServedModel& model,
                              const AnswerSettings& settings, Encoder& encoder);

struct LineAnswer {
  std::string text, error;  // one of them may be empty
  FinishReason reason = FinishReason::kLength;
  std::int64_t prompt_tokens = 0, completion_tokens = 0;
};

// The members of the request and behind them
//   "generated": {"text", "finish_reason", "prompt_tokens", "completion_tokens", "seed"}
// without the line's end; "error" too if there was one.
std::string answer_line(const LineRequest& asked, const LineAnswer& answer);

// Is `line` an answer to a request with these members?
bool answers(std::string_view line, const Json::Object& given);

}  // namespace trireme
