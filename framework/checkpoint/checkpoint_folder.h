// The checkpoints of a run: RUN/checkpoints/step-000500/ with manifest.json, one file per process,
// checkpoint.h5 for h5py users, recipe.cfg; and `latest`, the name of the newest.
//
// A save writes into a temporary folder, syncs files and folders, renames it into place, syncs the
// parent, and writes `latest` last (atomically, synced). Interrupted at any call it leaves the old
// checkpoints whole and rubbish that is ignored and removed by the next save. Never overwrites a
// committed step: saving a step that is there already is an Error unless its content is equal.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/checkpoint/checkpoint_reader.h"

namespace trireme {

class CheckpointFolder {
 public:
  CheckpointFolder(Files& files, std::string path);  // RUN/checkpoints; need not exist

  // Names the temporary folder of a save of `step`, made empty. One process of the run calls it.
  std::string begin(std::int64_t step);
  // Writes manifest, virtual datasets and recipe, and makes the checkpoint visible. After this
  // returned, a crash cannot lose it.
  void commit(const Manifest& manifest);
  // Removes all but the newest `keep` and those in `also`.
  void prune(std::int64_t keep, const std::vector<std::int64_t>& also);

  std::vector<std::int64_t> steps() const;  // committed ones, ascending; nothing is verified
  std::string folder_of(std::int64_t step) const;
  // The newest one that verifies. `refused` gets a sentence per damaged one that was passed over.
  std::optional<std::int64_t> newest_good(std::vector<std::string>& refused) const;

 private:
  Files& files_;
  std::string path_;
};

}  // namespace trireme
