// The one voice of a run: rank 0's terminal lines, log.txt, metrics.jsonl, samples.jsonl (once
// there is one) and TensorBoard events.
// Numbers come reduced over all ranks. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/base/files.h"
#include "recipes/cli/recipe.h"
#include "recipes/report/answer.h"
#include "recipes/report/console.h"
#include "recipes/report/event_file.h"
#include "recipes/report/line_file.h"
#include "recipes/report/step_record.h"

namespace trireme {

class RunVoice {
 public:
  // train.folder is ready (run_start.h): metrics.jsonl and log.txt go on behind what is there,
  // events in a file of their own. `out` is standard error.
  RunVoice(Files& files, const Recipe& recipe, std::ostream& out, const TerminalTraits& terminal);

  void say(const std::string& text) { console_.line(text); }
  // What the model said after a step: a dim line each, and into samples.jsonl. A text without a
  // prompt stands for itself.
  void samples(std::int64_t step, const std::vector<Answer>& said);
  // Only into samples.jsonl.
  void keep(std::int64_t step, const std::vector<Answer>& said);
  // One step: always into metrics and events; printed each train.log_every steps, and the first,
  // the last and evaluated ones.
  void step(const StepRecord& record);
  // To the disk: what a checkpoint's lines say must not be younger than it.
  void sync();
  void finish();

 private:
  const Recipe& recipe_;
  Files& files_;
  LineFile metrics_, log_;
  std::unique_ptr<LineFile> samples_;
  EventFile events_;
  Console console_;
};

}  // namespace trireme
