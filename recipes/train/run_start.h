// How a run begins in its folder: from the start, or from a checkpoint; and what happens to what an
// earlier run left there. Of the process that holds rank 0; before the run's files are opened.
//
// Nothing that anybody may miss is removed unasked: a folder with steps or checkpoints in it needs
// train.resume or train.restart. A resume looks at checkpoints only at a glance: loading one
// verifies it, and if that finds damage an older one is taken. What an earlier run left behind the
// resumed step goes once its state is loaded, so a folder without a good checkpoint stays as it is.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/error.h"
#include "framework/base/files.h"
#include "recipes/cli/recipe.h"
#include "recipes/train/run_lock.h"

namespace trireme {

struct RunStart {
  std::unique_ptr<RunLock> lock;
  std::string run;                 // id: hexadecimal, kept over resumes
  std::int64_t step = 0;           // attempts done; goes on behind the checkpoint of that step
  bool complete = false;           // all of train.steps are done: nothing was touched
  std::vector<std::string> notes;  // for the log: what was passed over, removed, changed
  std::string from;                // for the log, once it is loaded: "resumed from ..."
  std::vector<std::string> passed_over;  // damaged checkpoints, a sentence each
};

// Checkpoints, and not one of them is good.
class NoGoodCheckpoint : public Error {
 public:
  using Error::Error;
};

// What is in a folder.
struct EarlierRun {
  std::int64_t steps = 0;                 // told by metrics.jsonl
  std::vector<std::int64_t> checkpoints;  // steps, nothing verified
  bool any() const { return steps > 0 || !checkpoints.empty(); }
};
EarlierRun earlier_run(Files& files, const std::string& run_folder);

std::string new_run_id(Files& files);
std::string checkpoints_folder(const std::string& run_folder);
// Of train.export.
std::string export_folder(const std::string& run_folder);
// As written into recipe.cfg and checkpoints: without this start's resume and restart.
std::string recorded_recipe(const Recipe& recipe);

// Makes train.folder, locks it, and chooses what the run goes on from; from the start, nothing of
// ours stays in it. `recipe` is resolved for the machine; `token_hash` is of the data. Throws
// UsageError before anything is touched (an earlier run without either key, a recipe that the
// checkpoint does not go on with or that no checkpoint could hold, an offload folder that cannot be
// used), NoGoodCheckpoint, or Error (another run is at work).
RunStart begin_run(Files& files, const Recipe& recipe, const std::string& token_hash);
// The checkpoint of start.step is damaged: goes back to an older one, with new notes. Error if none
// is good, UsageError if the recipe does not go on with it.
void take_older(Files& files, const Recipe& recipe, const std::string& token_hash,
                const std::string& damage, RunStart& start);
// The state of `step` is loaded: metrics.jsonl ends with its line now, and recipe.cfg is this one.
void go_on_from(Files& files, const Recipe& recipe, std::int64_t step);

}  // namespace trireme
