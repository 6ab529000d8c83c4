#include "recipes/train/run_start.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <sstream>

#include "framework/base/error.h"
#include "framework/checkpoint/checkpoint_folder.h"
#include "offload/scratch_folder.h"
#include "recipes/cli/parse.h"
#include "recipes/cli/recipe_text.h"
#include "recipes/report/run_folder.h"
#include "recipes/train/last_failure.h"
#include "recipes/train/recipe_changes.h"
#include "recipes/train/run_leftovers.h"

namespace trireme {

namespace {

std::string contents_of(const EarlierRun& run) {
  return join(run.steps, run.steps == 1 ? " step" : " steps", " and ", run.checkpoints.size(),
              run.checkpoints.size() == 1 ? " checkpoint" : " checkpoints");
}

void expect_a_choice(const Recipe& recipe, const EarlierRun& there) {
  if (!there.any() || recipe.train.resume || recipe.train.restart) return;
  throw UsageError(join("train.folder = ", recipe.train.folder, " holds a run of ",
                        contents_of(there),
                        "; use --resume to go on with it, --restart to remove it and begin anew, "
                        "or another train.folder"));
}

Recipe recipe_in(const std::string& text, const std::string& place) {
  try {
    return parse_recipe({.file = place, .text = text});
  } catch (const UsageError& error) {
    fail("the recipe in ", place, " cannot be read by this version: ", error.what());
  }
}

// Steps after which the run that is there had its first checkpoint at the latest; 0: never. One
// that is written while training goes on is whole before the next one begins.
std::int64_t first_checkpoint_of(Files& files, const std::string& run_folder) {
  const std::string path = path_join(run_folder, "recipe.cfg");
  if (!files.exists(path)) return 0;
  const TrainSection train = recipe_in(read_whole(files, path), path).train;
  return train.checkpoint_every * (train.async_checkpoint ? 2 : 1);
}

// Without any checkpoint: from the start, if no more is lost by that than by any other kill.
void resume_from_nothing(Files& files, const Recipe& recipe, const EarlierRun& there,
                         RunStart& start) {
  const std::string& folder = recipe.train.folder;
  if (there.any())
    check(there.steps <= first_checkpoint_of(files, folder), "train.resume: ", folder, " has ",
          there.steps, " steps but no checkpoint to go on from (train.checkpoint_every makes them)",
          "; use --restart to begin anew, or another train.folder");
  start.notes.push_back(
      there.any() ? join("train.resume: the run in ", folder, " ended before its first checkpoint",
                         "; it begins from the start")
                  : join("train.resume: no run in ", folder, " yet; it begins from the start"));
}

void expect_same_run(const Recipe& recipe, const Manifest& saved, const std::string& place,
                     const std::string& token_hash, RunStart& start) {
  RecipeChanges changes = recipe_changes(recipe_in(saved.recipe, place + "/recipe.cfg"), recipe);
  const auto hash = saved.scalars.find("token_hash");
  if (hash != saved.scalars.end() && hash->second != token_hash)
    changes.refused.push_back(join(recipe.data.tokens.empty()
                                       ? "data.text = " + recipe.data.text
                                       : "data.tokens = " + recipe.data.tokens,
                                   " has other tokens than the checkpoint's data"));
  if (!changes.refused.empty()) {
    std::string text = join("train.resume: ", place, " cannot go on with this recipe:");
    for (const std::string& change : changes.refused) text += "\n  " + change;
    throw UsageError(text + "\nGive the checkpoint's values, or use another train.folder");
  }
  for (const std::string& change : changes.noted) start.notes.push_back("changed: " + change);
}

// The newest checkpoint before `before` that may be good: who loads it finds damage. One that is
// not loaded, since the run has all its steps, is verified here.
std::optional<std::int64_t> candidate(const CheckpointFolder& checkpoints, Files& files,
                                      std::int64_t before, std::int64_t steps,
                                      std::vector<std::string>& damaged) {
  for (;;) {
    const auto step = checkpoints.newest_at_a_glance(before, damaged);
    if (!step || *step < steps) return step;
    const std::vector<std::string> problems =
        verify_checkpoint(files, checkpoints.folder_of(*step));
    if (problems.empty()) return step;
    damaged.push_back(problems[0]);
    before = *step;
  }
}

// False if there is no checkpoint at all. Notes begin with those passed over, `damaged` among them.
bool choose(Files& files, const Recipe& recipe, const std::string& token_hash, std::int64_t before,
            std::vector<std::string> damaged, RunStart& start) {
  const CheckpointFolder checkpoints(files, checkpoints_folder(recipe.train.folder));
  const auto step = candidate(checkpoints, files, before, recipe.train.steps, damaged);
  if (!step && damaged.empty()) return false;
  if (!step) {
    std::string text = "train.resume: no checkpoint is good:";
    for (const std::string& sentence : start.passed_over) text += "\n  " + sentence;
    for (const std::string& sentence : damaged) text += "\n  " + sentence;
    throw NoGoodCheckpoint(text + "\nUse --restart to begin anew, or another train.folder");
  }
  for (const std::string& sentence : damaged) {
    start.notes.push_back("passed over: " + sentence);
    start.passed_over.push_back(sentence);
  }
  const std::string place = checkpoints.folder_of(*step);
  const Manifest saved = read_manifest(files, place);
  if (*step == 0)
    throw UsageError(join("train.resume: ", place,
                          " has the weights of an import and no run to go on "
                          "with; begin one with --model.from=",
                          recipe.train.folder, " and another train.folder"));
  expect_same_run(recipe, saved, place, token_hash, start);
  start.run = saved.run;
  start.step = *step;
  start.complete = *step >= recipe.train.steps;
  start.from = join("resumed from ", place, ", saved under ", saved.layout);
  return true;
}

// The recipe goes into every checkpoint, as a text of JSON: better to find out now.
void expect_text(const Recipe& recipe) {
  const auto fits = [](const std::string& text) {
    try {
      encode(Manifest{.recipe = text});
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  const std::string whole = recorded_recipe(recipe);
  if (fits(whole)) return;
  std::istringstream lines(whole);
  lines.exceptions(std::ios_base::badbit);  // no memory is no end of text
  std::string section, key = "a value of the recipe";
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('[')) section = line.substr(1, line.find(']') - 1) + ".";
    if (!fits(line)) key = section + line.substr(0, line.find(' '));
  }
  throw UsageError(join(key, " is not UTF-8, but the recipe is kept as text in recipe.cfg and in ",
                        "checkpoints; rename the file or folder, or write the recipe in UTF-8"));
}

std::string plain_place(const std::string& path) {
  const std::string whole = std::filesystem::absolute(path).lexically_normal().string();
  return whole.ends_with('/') ? whole.substr(0, whole.size() - 1) : whole;
}

// A run that begins anew removes what the earlier one exported.
void expect_source_elsewhere(const Recipe& recipe) {
  const std::string& from = recipe.model.from;
  if (from.empty() || plain_place(from) != plain_place(export_folder(recipe.train.folder))) return;
  throw UsageError(join("model.from = ", from,
                        " is what a run in train.folder = ", recipe.train.folder,
                        " exported, and would be replaced by this one; use another train.folder"));
}

}  // namespace

std::string new_run_id(Files& files) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%016llx",
                static_cast<unsigned long long>(files.raw_random()));
  return digits;
}

std::string checkpoints_folder(const std::string& run_folder) {
  return path_join(run_folder, "checkpoints");
}

std::string export_folder(const std::string& run_folder) {
  return path_join(run_folder, kExportName);
}

std::string recorded_recipe(const Recipe& recipe) {
  Recipe plain = recipe;
  plain.train.resume = plain.train.restart = false;
  return resolved_text(plain);
}

namespace {

// What train.export would put in place of a folder that no run of ours has left.
void expect_own_export(Files& files, const Recipe& recipe) {
  const std::string out = export_folder(recipe.train.folder);
  if (recipe.train.exports != "hf" || earlier_run(files, recipe.train.folder).any() ||
      !files.exists(out) ||
      (files.status(out).kind == FileKind::kDirectory && files.list(out).empty()))
    return;
  throw UsageError(join("train.export = hf makes ", out,
                        ", where something is that no run has left; use another train.folder"));
}

}  // namespace

EarlierRun earlier_run(Files& files, const std::string& run_folder) {
  EarlierRun found;
  if (files.status(run_folder).kind != FileKind::kDirectory) return found;
  found.steps = steps_told(files, path_join(run_folder, kMetricsName));
  found.checkpoints = CheckpointFolder(files, checkpoints_folder(run_folder)).steps();
  return found;
}

RunStart begin_run(Files& files, const Recipe& recipe, const std::string& token_hash) {
  const std::string& folder = recipe.train.folder;
  expect_text(recipe);
  expect_source_elsewhere(recipe);
  expect_a_choice(recipe, earlier_run(files, folder));
  expect_own_export(files, recipe);
  if (!recipe.offload.folder.empty())
    const ScratchFolder probe(files, {.folder = recipe.offload.folder});
  files.make_directories(folder);
  RunStart start;
  start.lock = std::make_unique<RunLock>(files, folder, this_process(files));
  const EarlierRun there = earlier_run(files, folder);
  expect_a_choice(recipe, there);
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  if (recipe.train.resume && !choose(files, recipe, token_hash, kAny, {}, start))
    resume_from_nothing(files, recipe, there, start);
  if (start.complete) return start;
  if (start.run.empty()) start.run = new_run_id(files);
  if (recipe.train.restart && there.any())
    start.notes.push_back(
        join("train.restart: removed ", contents_of(there), " of an earlier run"));
  const std::string failure = path_join(folder, kFailureName);
  if (!recipe.train.resume && files.exists(failure)) files.remove(failure);
  if (start.step > 0) {
    tidy_run(files, folder);
    return start;
  }
  remove_run(files, folder, there.any());
  write_whole_atomically(files, path_join(folder, "recipe.cfg"), recorded_recipe(recipe));
  return start;
}

void take_older(Files& files, const Recipe& recipe, const std::string& token_hash,
                const std::string& damage, RunStart& start) {
  start.notes.clear();
  if (!choose(files, recipe, token_hash, start.step, {damage}, start))
    fail("train.resume: no checkpoint is good: ", damage);
}

void go_on_from(Files& files, const Recipe& recipe, std::int64_t step) {
  keep_run_until(files, recipe.train.folder, step);
  write_whole_atomically(files, path_join(recipe.train.folder, "recipe.cfg"),
                         recorded_recipe(recipe));
}

}  // namespace trireme
