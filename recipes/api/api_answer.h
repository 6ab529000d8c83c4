// How an answer is said: one JSON object at the end, or pieces of an event stream as tokens come.
// One per request; one thread.
#pragma once

#include <string>
#include <vector>

#include "framework/data/tokenizer.h"
#include "recipes/api/api_request.h"

namespace trireme {

// A token by itself, as logprobs name it: its text, or "bytes:\xe6\x97" where that is no UTF-8.
std::string token_text(const Tokenizer& tokenizer, std::int64_t id);

class ApiAnswer {
 public:
  // `model` must outlive it.
  ApiAnswer(const ApiRequest& request, const ServedModel& model, std::string id,
            std::int64_t created);
  ApiAnswer(ApiAnswer&&) noexcept;
  ~ApiAnswer();

  // Of a stream: what is said before any token, of an event (often empty), and at the end.
  std::string first_pieces();
  std::string piece(std::size_t prompt, const GenerationEvent& event);
  std::string last_pieces() const;

  // Of a whole answer.
  void add(std::size_t prompt, const GenerationEvent& event);
  Json whole() const;

  // An error in the middle of a stream.
  static std::string error_piece(const ApiError& error);

 private:
  struct Choice;
  Choice& choice_of(std::size_t prompt, int choice);
  Json logprobs_of(Choice& choice, const std::vector<ChosenToken>& tokens) const;
  Json completion_logprobs(Choice& choice, const std::vector<ChosenToken>& tokens) const;
  Json chat_logprobs(const std::vector<ChosenToken>& tokens) const;
  void count(std::size_t prompt, const GenerationEvent& event);
  Json usage() const;
  std::string chunk(Json::Array choices, Json usage) const;
  Json stream_choice(std::size_t index, Json content, Json logprobs, Json reason, Json stop) const;

  bool chat_, echo_, include_usage_;
  int logprobs_, each_;
  const ServedModel& model_;
  std::string id_;
  std::int64_t created_;
  std::vector<Choice> choices_;
  std::int64_t prompt_tokens_ = 0, output_tokens_ = 0, cached_tokens_ = 0;
};

}  // namespace trireme
