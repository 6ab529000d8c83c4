#include "recipes/train/run_leftovers.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string_view>

#include "framework/base/error.h"
#include "framework/checkpoint/checkpoint_folder.h"
#include "recipes/report/answer.h"
#include "recipes/report/run_folder.h"
#include "recipes/train/last_failure.h"
#include "recipes/train/run_start.h"

namespace trireme {

namespace {

// The step of a line, 0 if it is no line of metrics.
std::int64_t step_of_line(const std::string& line) {
  try {
    return step_from_metrics(line).step;
  } catch (const std::exception&) {
    return 0;
  }
}

// Keeps the whole lines from the first on that are wanted.
void keep_lines(Files& files, const std::string& path,
                const std::function<bool(const std::string&)>& wanted) {
  if (!files.exists(path)) return;
  const std::string text = read_whole(files, path);
  std::size_t kept = 0;
  for (std::size_t end; (end = text.find('\n', kept)) != std::string::npos; kept = end + 1)
    if (!wanted(text.substr(kept, end - kept))) break;
  if (kept == text.size()) return;
  const auto file = files.open(path, OpenMode::kReadWrite);
  file->truncate(static_cast<std::int64_t>(kept));
  file->sync();
  file->close();
}

// Files that a killed run kept on disk. Ranks remove their own; there may have been more of them.
void remove_scratch(Files& files, const std::string& folder) {
  if (files.status(folder).kind != FileKind::kDirectory) return;
  for (const std::string& name : files.list(folder))
    if (name.starts_with("rank-") && name.size() > 5 &&
        name.find_first_not_of("0123456789", 5) == std::string::npos)
      files.remove_all(path_join(folder, name));
  if (files.list(folder).empty()) files.remove(folder);
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A file that was written beside the one that it should replace, when its writer was killed.
bool is_unfinished(std::string_view name) {
  const std::size_t mark = name.find(".tmp-");
  return mark != std::string_view::npos &&
         is_one_of(name.substr(0, mark),
                   {"recipe.cfg", "report.json", "trace.json.gz", kBeforeName, kFailureName});
}

void remove_ends(Files& files, const std::string& folder) {
  for (const std::string& name : files.list(folder))
    if (is_one_of(name, {"report.json", "trace.json.gz"}) || is_unfinished(name))
      files.remove(path_join(folder, name));
}

void remove_checkpoints(Files& files, const std::string& path) {
  if (!files.exists(path)) return;
  CheckpointFolder checkpoints(files, path);
  checkpoints.discard();
  for (const std::int64_t step : checkpoints.steps()) files.remove_all(checkpoints.folder_of(step));
  if (files.exists(path_join(path, "latest"))) files.remove(path_join(path, "latest"));
  if (files.list(path).empty()) files.remove(path);
}

// With what a killed export left beside it.
void remove_export(Files& files, const std::string& folder) {
  const std::string name = kExportName;
  for (const std::string& entry : files.list(folder))
    if (entry == name || entry.starts_with(name + ".tmp-"))
      files.remove_all(path_join(folder, entry));
}

}  // namespace

std::int64_t steps_told(Files& files, const std::string& metrics_path) {
  if (files.status(metrics_path).kind != FileKind::kFile) return 0;
  const std::string text = read_whole(files, metrics_path);
  const std::size_t end = text.rfind('\n');
  if (end == std::string::npos) return 0;
  const std::size_t before = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  // A line that nobody can read is there all the same.
  return std::max<std::int64_t>(1, step_of_line(text.substr(begin, end - begin)));
}

void tidy_run(Files& files, const std::string& folder) {
  remove_scratch(files, path_join(folder, "offload"));
  keep_lines(files, path_join(folder, kLogName), [](const std::string&) { return true; });
}

void keep_run_until(Files& files, const std::string& folder, std::int64_t step) {
  remove_ends(files, folder);
  std::int64_t last = 0;
  keep_lines(files, path_join(folder, kMetricsName), [&](const std::string& line) {
    const std::int64_t told = step_of_line(line);
    const bool next = told > last && told <= step;
    last = told;
    return next;
  });
  // The last samples of a run that is done are of its last step.
  keep_lines(files, path_join(folder, kSamplesName), [&](const std::string& line) {
    const std::optional<std::int64_t> told = step_of_answer_line(line);
    return told && *told <= step;
  });
}

void remove_run(Files& files, const std::string& folder, bool exported) {
  remove_checkpoints(files, checkpoints_folder(folder));
  if (exported) remove_export(files, folder);
  remove_scratch(files, path_join(folder, "offload"));
  remove_ends(files, folder);
  for (const std::string& name : files.list(folder))
    if (is_one_of(name, {kMetricsName, kLogName, kSamplesName, kBeforeName}) ||
        name.starts_with("events.out.tfevents."))
      files.remove(path_join(folder, name));
}

}  // namespace trireme
