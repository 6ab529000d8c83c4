// A run folder, read back: what `trireme report` compares.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/files.h"
#include "recipes/report/run_report.h"
#include "recipes/report/step_record.h"

namespace trireme {

struct RunFolder {
  std::string folder;                         // as it was named
  std::map<std::string, std::string> recipe;  // "parallel.data" -> "2", of recipe.cfg
  std::vector<StepRecord> steps;              // of metrics.jsonl
  std::optional<RunReport> report;            // absent: the run goes on, or was killed
};

// One line of metrics.jsonl; null is NaN. Throws Error with what is wrong with it.
StepRecord step_from_metrics(const std::string& line);

// Everything but the recipe, which recipes/cli reads. A last line without an end is left out while
// there is no report.json. Throws Error naming the folder or file that is missing or damaged.
RunFolder read_run_folder(Files& files, const std::string& folder);

}  // namespace trireme
