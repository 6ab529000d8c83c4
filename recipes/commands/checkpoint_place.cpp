#include "recipes/commands/checkpoint_place.h"

#include "framework/base/error.h"
#include "framework/checkpoint/checkpoint_folder.h"
#include "recipes/huggingface/adapter.h"
#include "recipes/huggingface/folder.h"
#include "recipes/train/run_start.h"

namespace trireme {

std::vector<std::string> checkpoints_in(Files& files, const std::string& name) {
  std::string folder = name;
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  const FileKind kind = files.status(folder).kind;
  check(kind != FileKind::kMissing, folder, ": there is no such folder", hub_advice(files, folder));
  check(kind == FileKind::kDirectory, folder, " is not a folder but a file");
  if (files.exists(path_join(folder, kManifestName))) return {folder};
  for (const std::string& place : {checkpoints_folder(folder), folder}) {
    const CheckpointFolder checkpoints(files, place);
    std::vector<std::string> found;
    if (files.status(place).kind == FileKind::kDirectory)
      for (const std::int64_t step : checkpoints.steps())
        found.push_back(checkpoints.folder_of(step));
    if (!found.empty()) return found;
  }
  // A step's folder without its manifest: what is wrong with it is for the caller to find out.
  const std::size_t slash = folder.rfind('/');
  if (folder.substr(slash == std::string::npos ? 0 : slash + 1).starts_with("step-"))
    return {folder};
  expect_no_adapter(files, folder);
  fail(folder, " has no checkpoint: name a run's folder, or one of its checkpoints/step-*",
       files.exists(path_join(folder, "config.json"))
           ? "; it is a model folder, of which trireme checkpoint import makes one"
           : "");
}

}  // namespace trireme
