#include "recipes/report/run_row.h"

#include "recipes/report/printable.h"

namespace trireme {

namespace {

std::map<std::string, TierBytes> memory_of(const RunReport& report) {
  std::map<std::string, TierBytes> tiers;
  for (std::size_t rank = 0; rank < report.ranks.size(); ++rank)
    for (const auto& [tier, total] : report.ranks[rank].memory_total)
      if (total.peak > (tiers.contains(tier) ? tiers[tier].peak : 0))
        tiers[tier] = {total.resident, total.peak, rank};
  return tiers;
}

std::optional<double> sent_per_step(const RunReport& report) {
  const std::int64_t steps = report.steps - report.earlier_steps;  // that the traffic is of
  if (steps == 0) return std::nullopt;
  std::int64_t bytes = 0;
  for (const RankReport& rank : report.ranks)
    for (const auto& [operation, cell] : rank.traffic) bytes += cell.bytes;
  return static_cast<double>(bytes) / static_cast<double>(steps);
}

void add_speed(const std::vector<StepRecord>& steps, RunRow& row) {
  if (steps.empty()) return;
  const std::size_t first = steps.size() > 1 ? 1 : 0;
  double seconds = 0, tokens = 0;
  for (std::size_t i = first; i < steps.size(); ++i) {
    seconds += steps[i].seconds;
    tokens += static_cast<double>(steps[i].tokens);
  }
  row.seconds_per_step = seconds / static_cast<double>(steps.size() - first);
  if (seconds > 0) row.tokens_per_s = tokens / seconds;
}

}  // namespace

RunRow row_of(const RunFolder& run) {
  RunRow row;
  row.steps = std::ssize(run.steps);
  for (const StepRecord& step : run.steps) {
    row.loss = step.loss;
    if (step.validation_loss) row.validation_loss = step.validation_loss;
  }
  add_speed(run.steps, row);
  if (!run.report) return row;
  row.steps = run.report->steps;
  row.memory = memory_of(*run.report);
  row.sent_per_step = sent_per_step(*run.report);
  return row;
}

std::string recipe_value(const RunFolder& run, const std::string& key) {
  const auto found = run.recipe.find(key);
  return found == run.recipe.end() ? "?" : printable(found->second);
}

std::string mesh_text(const RunFolder& run) {
  return "d" + recipe_value(run, "parallel.data") + " p" + recipe_value(run, "parallel.pipeline") +
         " t" + recipe_value(run, "parallel.tensor");
}

std::vector<std::pair<std::string, std::string>> offloads_of(const RunFolder& run) {
  std::vector<std::pair<std::string, std::string>> offloads;
  for (const char* what : {"optimizer", "gradients", "parameters", "activations", "kv_cache"}) {
    const auto found = run.recipe.find(std::string("offload.") + what);
    if (found != run.recipe.end() && found->second != "none")
      offloads.emplace_back(what, printable(found->second));
  }
  return offloads;
}

}  // namespace trireme
