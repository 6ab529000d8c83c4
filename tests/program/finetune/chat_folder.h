// A Hugging Face folder of a tiny chat model, made by the program itself: random weights, a
// tokenizer with <|im_end|> beside its end of text, a template that speaks ChatML; and chats.
#pragma once

#include <nlohmann/json.hpp>

#include "tests/program/checkpoints/run_columns.h"

namespace trireme::testing {

class ChatFolder {
 public:
  ChatFolder();

  std::string operator/(const std::string& name) const { return run_ / name; }
  std::string base() const { return run_ / "base"; }
  std::string chat() const { return run_ / "chat.jsonl"; }
  std::string run() const { return run_ / "tuned"; }
  std::string exported() const { return run() + "/model"; }
  // Of chat.jsonl.
  const std::vector<std::pair<std::string, std::string>>& talks() const { return talks_; }

  // Fine-tunes base() on chat() in f32, into run(), anew.
  ProgramEnd tune(const Words& flags = {}) const;
  // The greedy answer of a folder: generate's JSON.
  nlohmann::json answer(const std::string& folder, const std::string& message,
                        const Words& flags = {}) const;
  int end_of_turn() const { return end_; }
  int end_of_text() const { return eos_; }

 private:
  void make_tokenizer();

  TinyRun run_;
  std::vector<std::pair<std::string, std::string>> talks_;
  int eos_ = 0, end_ = 0;
};

}  // namespace trireme::testing
