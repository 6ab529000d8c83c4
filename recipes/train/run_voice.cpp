#include "recipes/train/run_voice.h"

#include <unistd.h>

#include <chrono>

#include "offload/scratch_folder.h"
#include "recipes/cli/recipe_text.h"
#include "recipes/report/numbers.h"

namespace trireme {

namespace {

double seconds_since_1970() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  char name[256] = "host";
  gethostname(name, sizeof name - 1);
  return name;
}

// Files that a killed run kept on disk. Ranks remove their own; there may have been more of them.
void remove_earlier_scratch(Files& files, const std::string& folder) {
  if (files.status(folder).kind != FileKind::kDirectory) return;
  for (const std::string& name : files.list(folder))
    if (name.starts_with("rank-") && name.size() > 5 &&
        name.find_first_not_of("0123456789", 5) == std::string::npos)
      files.remove_all(path_join(folder, name));
  if (files.list(folder).empty()) files.remove(folder);
}

// What an earlier run left would pass for this one's.
void remove_earlier_results(Files& files, const std::string& folder) {
  remove_earlier_scratch(files, path_join(folder, "offload"));
  for (const std::string& name : files.list(folder))
    if (name == "report.json" || name == "trace.json.gz" ||
        name.starts_with("events.out.tfevents."))
      files.remove(folder + "/" + name);
}

// An offload folder that cannot be used shows before results of an earlier run are gone.
const std::string& made_folder(Files& files, const Recipe& recipe) {
  if (!recipe.offload.folder.empty())
    const ScratchFolder probe(files, {.folder = recipe.offload.folder});
  files.make_directories(recipe.train.folder);
  remove_earlier_results(files, recipe.train.folder);
  write_whole_atomically(files, recipe.train.folder + "/recipe.cfg", resolved_text(recipe));
  return recipe.train.folder;
}

}  // namespace

RunVoice::RunVoice(Files& files, const Recipe& recipe, std::ostream& out,
                   const TerminalTraits& terminal)
    : recipe_(recipe),
      metrics_(files, made_folder(files, recipe) + "/metrics.jsonl", LineStart::kFresh),
      log_(files, recipe.train.folder + "/log.txt", LineStart::kFresh),
      events_(files, recipe.train.folder, seconds_since_1970(), host_name()),
      console_(out, terminal, &log_) {}

void RunVoice::sample(std::int64_t step, const std::string& text) {
  console_.aside("sample after step " + std::to_string(step) + ": " + text);
}

void RunVoice::step(const StepRecord& record) {
  metrics_.line(metrics_line(record));
  events_.write(record.step, scalars_of(record), seconds_since_1970());
  const bool named =
      record.step == 1 || record.step == record.steps || record.validation_loss.has_value();
  if (named || record.step % recipe_.train.log_every == 0) console_.line(step_line(record));
  const std::string left = record.remaining ? "eta " + duration_text(*record.remaining) : "";
  console_.bar(record.step, record.steps, left);
}

void RunVoice::finish() {
  console_.clear();
  metrics_.close();
  log_.close();
  events_.close();
}

}  // namespace trireme
