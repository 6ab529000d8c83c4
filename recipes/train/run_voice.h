// The one voice of a run: rank 0's terminal lines, log.txt, metrics.jsonl and TensorBoard events.
// Numbers come reduced over all ranks. One thread.
#pragma once

#include <memory>
#include <string>

#include "framework/base/files.h"
#include "recipes/cli/recipe.h"
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
  void sample(std::int64_t step, const std::string& text);
  // One step: always into metrics and events; printed each train.log_every steps, and the first,
  // the last and evaluated ones.
  void step(const StepRecord& record);
  // To the disk: what a checkpoint's lines say must not be younger than it.
  void sync();
  void finish();

 private:
  const Recipe& recipe_;
  LineFile metrics_, log_;
  EventFile events_;
  Console console_;
};

}  // namespace trireme
