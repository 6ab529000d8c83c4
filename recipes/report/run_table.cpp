#include "recipes/report/run_table.h"

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"
#include "recipes/report/numbers.h"
#include "recipes/report/printable.h"
#include "recipes/report/run_row.h"
#include "recipes/report/table.h"

namespace trireme {

namespace {

using Row = std::vector<std::string>;

std::string loss_text(const std::optional<double>& loss) {
  if (!loss) return "-";
  return std::abs(*loss) < 1e6 ? fixed(*loss, 6) : significant(*loss, 6);
}

std::string bytes_or_dash(const RunRow& row, const std::string& tier, bool resident) {
  const auto found = row.memory.find(tier);
  if (found == row.memory.end()) return "-";
  return bytes_text(resident ? found->second.resident : found->second.peak);
}

std::string offload_text(const RunFolder& run) {
  std::string text;
  for (const auto& [what, tier] : offloads_of(run))
    text += (text.empty() ? "" : ",") + what + ":" + tier;
  return text.empty() ? "-" : text;
}

std::string schedule_text(const RunFolder& run) {
  if (recipe_value(run, "parallel.pipeline") == "1") return "-";
  const std::string schedule = recipe_value(run, "pipeline.schedule");
  return schedule == "interleaved" ? schedule + "/" + recipe_value(run, "pipeline.chunks")
                                   : schedule;
}

Row header() {
  return {"run",       "layout",    "schedule",    "zero",        "offload",
          "steps",     "loss",      "val loss",    "device peak", "resident",
          "host peak", "disk peak", "sent a step", "tokens/s",    "s a step"};
}

Row cells_of(const RunFolder& run) {
  const RunRow row = row_of(run);
  const auto sent = row.sent_per_step.value_or(0);
  return {printable(run.folder),
          mesh_text(run),
          schedule_text(run),
          recipe_value(run, "zero.stage"),
          offload_text(run),
          grouped(row.steps),
          loss_text(row.loss),
          loss_text(row.validation_loss),
          bytes_or_dash(row, "device", false),
          bytes_or_dash(row, "device", true),
          bytes_or_dash(row, "host", false),
          bytes_or_dash(row, "disk", false),
          sent > 0 ? bytes_text(std::llround(sent)) : "-",
          row.tokens_per_s ? short_number(*row.tokens_per_s) : "-",
          row.seconds_per_step ? significant(*row.seconds_per_step, 3) : "-"};
}

void drop_empty_columns(std::vector<Row>& rows) {
  for (std::size_t c = rows[0].size(); c-- > 1;) {
    const bool empty =
        std::all_of(rows.begin() + 1, rows.end(), [&](const Row& row) { return row[c] == "-"; });
    if (!empty) continue;
    for (Row& row : rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(c));
  }
}

std::string unended_text(const std::vector<RunFolder>& runs) {
  std::string text;
  for (const RunFolder& run : runs)
    if (!run.report)
      text += printable(run.folder) +
              " has no report.json: it still runs or was killed; what metrics.jsonl tells is "
              "shown\n";
  return text;
}

std::string spread_text(const LossSpread& spread, const std::vector<RunFolder>& runs) {
  if (spread.difference == 0) return "the same bits";
  const std::string place = join(" at step ", spread.step, ": ", printable(runs[spread.low].folder),
                                 " and ", printable(runs[spread.high].folder));
  if (std::isinf(spread.difference)) return "only some are numbers" + place;
  return "relative difference at most " + significant(spread.difference, 2) + place;
}

std::string comparison_text(const std::vector<RunFolder>& runs) {
  const LossComparison losses = compare_losses(runs);
  std::string text;
  if (!losses.different_keys.empty()) {
    text = "not one training: the recipes differ in";
    for (const std::string& key : losses.different_keys)
      text += (key == losses.different_keys.front() ? " " : ", ") + printable(key);
    text += "\n";
  }
  if (losses.all.steps == 0) return text + "losses: the runs have no step in common\n";
  text += join("losses ", losses.agree() ? "agree" : "DIFFER", " over the first ",
               losses.judged.steps, " common steps: ", spread_text(losses.judged, runs));
  if (losses.judged.difference > 0)
    text += join(" (", printable(losses.precision), " may differ by ",
                 significant(losses.tolerance, 2), ")");
  text += "\n";
  if (losses.all.steps > losses.judged.steps)
    text += join("over all ", grouped(losses.all.steps),
                 " common steps: ", spread_text(losses.all, runs), "\n");
  return text;
}

}  // namespace

std::string runs_text(const std::vector<RunFolder>& runs) {
  std::vector<Row> rows{header()};
  for (const RunFolder& run : runs) rows.push_back(cells_of(run));
  drop_empty_columns(rows);
  std::string text = table_text(rows) + unended_text(runs);
  if (runs.size() > 1) text += comparison_text(runs);
  return text;
}

}  // namespace trireme
