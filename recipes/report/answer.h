// What a model said to a prompt, and what fine-tuning changed of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

struct Answer {
  std::string prompt, text;
  bool ended = false;  // by itself
  bool operator==(const Answer&) const = default;
};

// A line of samples.jsonl: {"step", "prompt", "text", "ended"}.
std::string answer_line(std::int64_t step, const Answer& answer);
// The step of such a line; empty if it is none.
std::optional<std::int64_t> step_of_answer_line(const std::string& line);

// Of a run that began with a model folder, before its first step: before.json, so that a resumed
// run has it, too.
struct TuningStart {
  std::optional<double> validation_loss;
  std::vector<Answer> answers;
};
std::string tuning_start_json(const TuningStart& start);
// Throws Error with what is wrong with the text.
TuningStart tuning_start_from_json(const std::string& text, const std::string& name);

// Before the first step and after the last one. What was not asked at one of them is empty.
struct TunedAnswer {
  std::string prompt;
  std::optional<std::string> before, after;
  bool operator==(const TunedAnswer&) const = default;
};
struct Tuning {
  std::optional<double> loss_before, loss_after;  // of the held-out samples
  std::vector<TunedAnswer> answers;
};
// The answers after the last step, each beside the one to the same prompt before.
Tuning tuning_of(const TuningStart& before, const TuningStart& after);
// A table of loss and perplexity, and below it the answers.
std::string tuning_text(const Tuning& tuning);

}  // namespace trireme
