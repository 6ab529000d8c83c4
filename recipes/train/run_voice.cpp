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
      files_(files),
      metrics_(files, path_join(recipe.train.folder, kMetricsName), LineStart::kAppend),
      log_(files, path_join(recipe.train.folder, kLogName), LineStart::kAppend),
      events_(files, recipe.train.folder, seconds_since_1970(), writer_name()),
      console_(out, terminal, &log_) {}

void RunVoice::samples(std::int64_t step, const std::vector<Answer>& said) {
  for (const Answer& answer : said)
    console_.aside(join("sample after step ", step, ": ", answer.prompt,
                        answer.prompt.empty() ? "" : " => ", answer.text,
                        answer.prompt.empty() || answer.ended ? "" : " ..."));
  keep(step, said);
}

void RunVoice::keep(std::int64_t step, const std::vector<Answer>& said) {
  if (said.empty()) return;
  if (!samples_)
    samples_ = std::make_unique<LineFile>(files_, path_join(recipe_.train.folder, kSamplesName),
                                          LineStart::kAppend);
  for (const Answer& answer : said) samples_->line(answer_line(step, answer));
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
  if (samples_) samples_->sync();
}

void RunVoice::finish() {
  console_.clear();
  metrics_.close();
  log_.close();
  if (samples_) samples_->close();
  events_.close();
}

}  // namespace trireme
