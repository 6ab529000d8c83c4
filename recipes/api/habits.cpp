#include "recipes/api/habits.h"

namespace trireme {

namespace {

std::vector<HabitField> common() {
  return {
      {"store", {false}, "Nothing is stored."},
      {"service_tier", {"auto", "default"}, "There is one."},
      {"priority", {0}, "Callers take turns."},
      {"use_beam_search", {false}, "Tokens are drawn one by one."},
      {"length_penalty", {1, 1.0}, "Tokens are drawn one by one."},
      {"early_stopping", {false}, "Tokens are drawn one by one."},
      {"return_tokens_as_token_ids", {false}, "/tokenize tells ids."},
      {"return_token_ids", {false}, "/tokenize tells ids."},
      {"spaces_between_special_tokens", {true}, "Tokens are spelled as the tokenizer has them."},
      {"bad_words", {Json(Json::Array())}, "logit_bias has tokens left out."},
      {"cache_prompt", {true}, "Prefixes are found again."},
      {"repeat_penalty", {1, 1.0}, "repetition_penalty is its name here."},
      {"typical_p", {1, 1.0}, "Not a way of drawing here."},
      {"mirostat", {0}, "Not a way of drawing here."},
  };
}

std::vector<HabitField> of_chats() {
  const Json nothing = Json::Array();
  std::vector<HabitField> all{
      {"tools", {nothing}, "No tools are called."},
      {"tool_choice", {"none", "auto"}, "No tools are called."},
      {"parallel_tool_calls", {true, false}, "No tools are called."},
      {"functions", {nothing}, "No tools are called."},
      {"function_call", {"none", "auto"}, "No tools are called."},
      {"response_format", {Json::Object{{"type", "text"}}}, "Answers are text."},
      {"modalities", {Json::Array{"text"}}, "Answers are text."},
      {"reasoning_effort", {"none"}, "Models are not asked to reason apart."},
      {"verbosity", {"medium"}, "Answers are as long as the model likes."},
      {"chat_template_kwargs", {Json::Object()}, "Templates are given messages alone."},
      {"add_special_tokens", {false}, "The template has them."},
      {"best_of", {1}, "n is how many answers there are."},
      {"include_reasoning", {true, false}, "Answers are not taken apart."},
      {"think", {false}, "Models are not asked to reason apart."},
      {"echo", {false}, "/v1/completions can."},
  };
  for (HabitField& field : common()) all.push_back(std::move(field));
  return all;
}

std::vector<HabitField> of_completions() {
  std::vector<HabitField> all{
      {"suffix", {""}, "Texts go on at their end."},
      {"response_format", {Json::Object{{"type", "text"}}}, "Answers are text."},
  };
  for (HabitField& field : common()) all.push_back(std::move(field));
  return all;
}

}  // namespace

const std::vector<HabitField>& habit_fields(bool chat) {
  static const std::vector<HabitField> chats = of_chats(), completions = of_completions();
  return chat ? chats : completions;
}

const std::vector<std::string>& label_fields() {
  static const std::vector<std::string> names{"user", "safety_identifier", "prompt_cache_key",
                                              "request_id"};
  return names;
}

}  // namespace trireme
