// What a client of the completions API asks for, read from its JSON and checked: everything that
// the engine needs, and how to say the answer. docs/serve.md lists the fields.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/memory_ledger.h"
#include "framework/data/conversation.h"
#include "framework/data/tokenizer.h"
#include "recipes/api/api_error.h"
#include "recipes/serve/serve_engine.h"

namespace trireme {

// The memory of the rank that leads, for /props.
struct ServedMemory {
  const MemoryLedger* ledger = nullptr;          // null: not told
  int ranks = 1;                                 // each has as much, more or less
  std::int64_t page_tokens = 0, page_bytes = 0;  // of the cache's pages
  std::int64_t limit = 0;                        // bytes it may take; 0: unknown
  bool device_alone = false;  // the limit is of the device; else of device and host
  std::string limit_source = {};
};

// The model that is served, for as long as it is. Immutable.
struct ServedModel {
  std::string name;
  std::int64_t created = 0;  // seconds since 1970
  const Tokenizer& tokenizer;
  std::int64_t vocab = 0;             // ids below it mean something
  std::int64_t context = 0;           // most tokens of prompt and answer
  std::optional<std::int32_t> start;  // stands before a text
  std::vector<std::int32_t> ends, answer_ends;
  std::shared_ptr<const ConversationEncoder> chat;  // null: it has no chat template
  ServedMemory memory = {};
  Sampling drawing = {};          // of requests that say nothing else
  std::string chat_problem = {};  // why its chat template cannot be used, if it has one
};

struct ApiLimits {
  int choices = 16;  // n, and prompts x n
  int logprobs = 20;
  std::size_t stops = 4, stop_bytes = 256, bias = 1024, messages = 1024, parts = 1024;
};

struct ApiRequest {
  bool chat = false, stream = false, include_usage = false, echo = false;
  int logprobs = -1;  // of how many beside the chosen token; -1: none
  int choices = 1;    // of each prompt
  std::vector<GenerationRequest> prompts;
};

// Throw ApiError. `seed`: of a request that gives none.
ApiRequest read_completion(const Json& body, const ServedModel& model, const ApiLimits& limits,
                           Encoder& encoder, std::uint64_t seed);
ApiRequest read_chat(const Json& body, const ServedModel& model, const ApiLimits& limits,
                     Encoder& encoder, std::uint64_t seed);

// {"messages": ...} as tokens that end where the answer begins.
std::vector<std::int32_t> chat_tokens(const Json& messages, const ServedModel& model,
                                      const ApiLimits& limits, Encoder& encoder);
// ApiError 404 unless it is the served one's.
void check_name(const std::string& name, const ServedModel& model);
// A text that stands alone: with the model's start token, if wanted and there is one.
std::vector<std::int32_t> text_tokens(const std::string& text, bool start, const ServedModel& model,
                                      Encoder& encoder);

}  // namespace trireme
