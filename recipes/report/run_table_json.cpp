#include "recipes/report/numbers.h"
#include "recipes/report/printable.h"
#include "recipes/report/run_row.h"
#include "recipes/report/run_table.h"

namespace trireme {

namespace {

std::string maybe(const std::optional<double>& value) {
  return value ? json_number(*value) : "null";
}

// Appends members of an object or elements of an array, with commas between.
class List {
 public:
  List& add(const std::string& name, const std::string& value) {
    return add(json_string(name) + ": " + value);
  }
  List& add(const std::string& element) {
    text_ += (text_.empty() ? "" : ", ") + element;
    return *this;
  }
  std::string object() const { return "{" + text_ + "}"; }
  std::string array() const { return "[" + text_ + "]"; }

 private:
  std::string text_;
};

// A number if it is one, else a string.
std::string recipe_json(const RunFolder& run, const std::string& key) {
  const std::string value = recipe_value(run, key);
  const bool number = !value.empty() && value.size() < 16 &&
                      value.find_first_not_of("0123456789") == std::string::npos &&
                      (value == "0" || value[0] != '0');
  return number ? value : json_string(value);
}

std::string layout_json(const RunFolder& run) {
  List offloads;
  for (const auto& [what, tier] : offloads_of(run)) offloads.add(what, json_string(tier));
  return List()
      .add("data", recipe_json(run, "parallel.data"))
      .add("pipeline", recipe_json(run, "parallel.pipeline"))
      .add("tensor", recipe_json(run, "parallel.tensor"))
      .add("schedule", recipe_json(run, "pipeline.schedule"))
      .add("chunks", recipe_json(run, "pipeline.chunks"))
      .add("zero_stage", recipe_json(run, "zero.stage"))
      .add("offload", offloads.object())
      .object();
}

std::string run_json(const RunFolder& run) {
  const RunRow row = row_of(run);
  List memory;
  for (const auto& [tier, bytes] : row.memory)
    memory.add(tier, List()
                         .add("resident", std::to_string(bytes.resident))
                         .add("peak", std::to_string(bytes.peak))
                         .add("rank", std::to_string(bytes.rank))
                         .object());
  return List()
      .add("folder", json_string(printable(run.folder)))
      .add("ended", run.report ? "true" : "false")
      .add("layout", layout_json(run))
      .add("steps", std::to_string(row.steps))
      .add("loss", maybe(row.loss))
      .add("validation_loss", maybe(row.validation_loss))
      .add("validation_loss_before",
           run.report && run.report->tuning ? maybe(run.report->tuning->loss_before) : "null")
      .add("memory", run.report ? memory.object() : "null")
      .add("sent_bytes_per_step", maybe(row.sent_per_step))
      .add("tokens_per_s", maybe(row.tokens_per_s))
      .add("seconds_per_step", maybe(row.seconds_per_step))
      .object();
}

std::string spread_json(const LossSpread& spread, const std::vector<RunFolder>& runs) {
  List list;
  list.add("steps", std::to_string(spread.steps)).add("difference", json_number(spread.difference));
  if (spread.difference == 0) return list.add("step", "null").add("folders", "null").object();
  return list.add("step", std::to_string(spread.step))
      .add("folders", List()
                          .add(json_string(printable(runs[spread.low].folder)))
                          .add(json_string(printable(runs[spread.high].folder)))
                          .array())
      .object();
}

std::string losses_json(const std::vector<RunFolder>& runs) {
  if (runs.size() < 2) return "null";
  const LossComparison losses = compare_losses(runs);
  List keys;
  for (const std::string& key : losses.different_keys) keys.add(json_string(key));
  const bool compared = losses.all.steps > 0;
  return List()
      .add("agree", !compared        ? "null"
                    : losses.agree() ? "true"
                                     : "false")
      .add("tolerance", json_number(losses.tolerance))
      .add("judged", spread_json(losses.judged, runs))
      .add("all", spread_json(losses.all, runs))
      .add("different_keys", keys.array())
      .object();
}

}  // namespace

std::string runs_json(const std::vector<RunFolder>& runs) {
  std::string text = "{\"runs\": [";
  for (std::size_t i = 0; i < runs.size(); ++i) text += (i == 0 ? "\n" : ",\n") + run_json(runs[i]);
  return text + "\n], \"losses\": " + losses_json(runs) + "}\n";
}

}  // namespace trireme
