#include "recipes/report/run_folder.h"

#include "framework/base/error.h"

namespace trireme {

namespace {

void check_is_run_folder(Files& files, const std::string& folder) {
  const FileKind kind = files.status(folder).kind;
  check(kind != FileKind::kMissing, folder, ": there is no such folder");
  check(kind == FileKind::kDirectory, folder, " is not a run folder but a file");
  for (const char* name : {"recipe.cfg", "metrics.jsonl"})
    check(files.exists(path_join(folder, name)), folder, " is not a run folder: it has no ", name);
}

// `read` with the file's name, and the line's if there is one, before what is wrong.
template <typename Read>
auto told(const std::string& place, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    fail(place, " is damaged: ", error.what());
  }
}

std::vector<StepRecord> read_metrics(Files& files, const std::string& path, bool ended) {
  const std::string text = read_whole(files, path);
  std::vector<StepRecord> steps;
  for (std::size_t begin = 0, line = 1; begin < text.size(); ++line) {
    std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) {
      if (!ended) break;
      end = text.size();
    }
    steps.push_back(told(join(path, " line ", line),
                         [&] { return step_from_metrics(text.substr(begin, end - begin)); }));
    begin = end + 1;
  }
  return steps;
}

}  // namespace

RunFolder read_run_folder(Files& files, const std::string& folder) {
  check_is_run_folder(files, folder);
  RunFolder run{.folder = folder};
  // The report first: a run that ends now has all of its lines by then.
  const std::string report = path_join(folder, "report.json");
  if (files.exists(report))
    run.report = told(report, [&] { return report_from_json(read_whole(files, report)); });
  run.steps = read_metrics(files, path_join(folder, "metrics.jsonl"), run.report.has_value());
  return run;
}

}  // namespace trireme
