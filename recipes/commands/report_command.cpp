// trireme report FOLDER... [--json]: runs side by side, and whether they trained to the same
// numbers.
#include <ostream>

#include "framework/base/error.h"
#include "recipes/cli/ini_file.h"
#include "recipes/commands/process.h"
#include "recipes/report/run_table.h"

namespace trireme {

namespace {

std::map<std::string, std::string> read_recipe(Files& files, const std::string& path) {
  const IniFile ini = read_ini(read_whole(files, path));
  if (!ini.problems.empty())
    fail(path, " is damaged: line ", ini.problems[0].line, ": ", ini.problems[0].text);
  std::map<std::string, std::string> recipe;
  for (const IniEntry& entry : ini.entries) recipe[entry.key] = entry.value;
  return recipe;
}

}  // namespace

int report_command(Process& process, const CommandLine& line) {
  if (!line.flags.empty())
    throw UsageError(join("report: --", line.flags[0].name,
                          " is no option of it: trireme report FOLDER... [--json]"));
  if (line.names.empty())
    throw UsageError(
        "report: needs the folder of a run, or of several to compare: "
        "trireme report FOLDER... [--json]");
  std::vector<RunFolder> runs;
  for (const std::string& name : line.names) {
    std::string folder = name;
    while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
    runs.push_back(read_run_folder(process.files, folder));
    runs.back().recipe = read_recipe(process.files, path_join(folder, "recipe.cfg"));
  }
  if (line.options.contains("json")) {
    process.out << runs_json(runs);
    return 0;
  }
  process.out << runs_text(runs);
  for (const RunFolder& run : runs)
    if (run.report && run.report->tuning)
      if (const std::string text = tuning_text(*run.report->tuning); !text.empty())
        process.out << "\n" << (runs.size() > 1 ? run.folder + "\n" : "") << text;
  return 0;
}

}  // namespace trireme
