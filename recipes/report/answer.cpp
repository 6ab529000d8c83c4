#include "recipes/report/answer.h"

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"
#include "framework/base/json/json.h"
#include "recipes/report/numbers.h"
#include "recipes/report/table.h"

namespace trireme {

namespace {

std::string changed(const std::optional<double>& before, const std::optional<double>& after) {
  return before && after ? fixed(*after - *before, 4) : "-";
}

std::string shown(const std::optional<double>& value, int digits = 4) {
  return value ? fixed(*value, digits) : "-";
}

std::optional<double> perplexity(const std::optional<double>& loss) {
  return loss ? std::optional(std::exp(*loss)) : std::nullopt;
}

// Lines after the first stand below it.
std::string indented(const std::string& label, const std::string& text) {
  std::string result = label;
  for (const char c : text) result += c == '\n' ? "\n          " : std::string(1, c);
  return result + "\n";
}

Json number_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json();
}

}  // namespace

std::string answer_line(std::int64_t step, const Answer& answer) {
  return to_text(Json::Object{
      {"step", step}, {"prompt", answer.prompt}, {"text", answer.text}, {"ended", answer.ended}});
}

std::optional<std::int64_t> step_of_answer_line(const std::string& line) {
  try {
    return parse_json(line, "sample").at("step", "sample").integer("sample");
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string tuning_start_json(const TuningStart& start) {
  Json::Array answers;
  for (const Answer& a : start.answers)
    answers.push_back(Json::Object{{"prompt", a.prompt}, {"text", a.text}, {"ended", a.ended}});
  return to_text(Json(Json::Object{{"validation_loss", number_or_null(start.validation_loss)},
                                   {"answers", std::move(answers)}}),
                 1) +
         "\n";
}

TuningStart tuning_start_from_json(const std::string& text, const std::string& name) {
  const Json json = parse_json(text, name);
  TuningStart start;
  const Json& loss = json.at("validation_loss", name);
  if (!loss.is_null()) start.validation_loss = loss.number(name + ": validation_loss");
  for (const Json& a : json.at("answers", name).array(name + ": answers"))
    start.answers.push_back({.prompt = a.at("prompt", name).text(name + ": prompt"),
                             .text = a.at("text", name).text(name + ": text"),
                             .ended = a.at("ended", name).boolean(name + ": ended")});
  return start;
}

Tuning tuning_of(const TuningStart& before, const TuningStart& after) {
  Tuning tuning{.loss_before = before.validation_loss, .loss_after = after.validation_loss};
  for (const Answer& answer : after.answers) {
    TunedAnswer both{.prompt = answer.prompt, .after = answer.text};
    const auto first = std::find_if(before.answers.begin(), before.answers.end(),
                                    [&](const Answer& one) { return one.prompt == answer.prompt; });
    if (first != before.answers.end()) both.before = first->text;
    tuning.answers.push_back(std::move(both));
  }
  return tuning;
}

std::string tuning_text(const Tuning& t) {
  std::string text;
  if (t.loss_before || t.loss_after) {
    const auto before = perplexity(t.loss_before), after = perplexity(t.loss_after);
    text += table_text({{"fine-tuning", "before", "after", "change"},
                        {"validation loss", shown(t.loss_before), shown(t.loss_after),
                         changed(t.loss_before, t.loss_after)},
                        {"perplexity", shown(before, 2), shown(after, 2), changed(before, after)}});
  }
  for (const TunedAnswer& answer : t.answers) {
    text += indented(text.empty() ? "prompt:   " : "\nprompt:   ", answer.prompt);
    if (answer.before) text += indented("  before: ", *answer.before);
    if (answer.after) text += indented("  after:  ", *answer.after);
  }
  return text;
}

}  // namespace trireme
