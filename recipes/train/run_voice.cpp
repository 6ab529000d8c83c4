#include "recipes/train/run_voice.h"

#include <unistd.h>

#include <chrono>

#include "framework/base/error.h"
#include "recipes/report/numbers.h"
#include "recipes/train/run_leftovers.h"

namespace trireme {

namespace {

double seconds_since_1970() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

// With the process, so that a run that is resumed within a second has a file of its own.
std::string writer_name() {
  char name[256] = "host";
  gethostname(name, sizeof name - 1);
  return join(name, ".", getpid());
}

}  // namespace

RunVoice::RunVoice(Files& files, const Recipe& recipe, std::ostream& out,
                   const TerminalTraits& terminal)
    : recipe_(recipe),
      metrics_(files, path_join(recipe.train.folder, kMetricsName), LineStart::kAppend),
      log_(files, path_join(recipe.train.folder, kLogName), LineStart::kAppend),
      events_(files, recipe.train.folder, seconds_since_1970(), writer_name()),
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

void RunVoice::sync() {
  metrics_.sync();
  log_.sync();
}

void RunVoice::finish() {
  console_.clear();
  metrics_.close();
  log_.close();
  events_.close();
}

}  // namespace trireme
