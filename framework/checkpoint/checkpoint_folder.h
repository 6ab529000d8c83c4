// The checkpoints of a run: RUN/checkpoints/step-000500/ with manifest.json, one file per process,
// checkpoint.h5 for h5py users, recipe.cfg; and `latest`, the name of the newest.
//
// A save writes into a temporary folder, syncs files and folders, renames it into place, syncs the
// parent, and writes `latest` last (atomically, synced). Interrupted at any call it leaves the old
// checkpoints whole and rubbish that is ignored and removed by the next save. Never overwrites a
// good checkpoint: saving a step that is there already is an Error unless its content is equal (the
// same bits in every array and scalar, whatever the layout); then the old one stays. A damaged one
// gives way.
//
// Made for one saving process at a time; others read beside it. Not safe for two threads.
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
  // Writes virtual datasets, recipe and manifest (which gets the two files added), and makes the
  // checkpoint visible. After this returned, a crash cannot lose it. Before: begin() of this step,
  // and all files of the manifest finished by their writers. Throws Error, and nothing is visible,
  // when arrays are not covered exactly once or a file does not have its size. When only `latest`
  // could not be written, the checkpoint is there, and the Error says so.
  void commit(const Manifest& manifest);
  // Removes what a save that failed has left. Also done by the next begin().
  void discard();
  // Removes all but the newest `keep` (at least 1), those in `also` and, unless `every` is 0, those
  // of multiples of `every`. Tells which, with the bytes of their files.
  struct Removed {
    std::int64_t step = 0, bytes = 0;
  };
  std::vector<Removed> prune(std::int64_t keep, const std::vector<std::int64_t>& also,
                             std::int64_t every = 0);

  std::vector<std::int64_t> steps() const;  // committed ones, ascending; nothing is verified
  std::string folder_of(std::int64_t step) const;
  // What `latest` says; nothing if there is none. Error if it is damaged or names no checkpoint.
  // For people and scripts: newest_good() does not need it.
  std::optional<std::int64_t> latest() const;
  // The newest one that verifies. `refused` gets a sentence per damaged one that was passed over.
  std::optional<std::int64_t> newest_good(std::vector<std::string>& refused) const;
  // The newest one before `before` that is good at a glance (checkpoint_reader.h), for who then
  // reads all of it and takes an older one when that finds damage.
  std::optional<std::int64_t> newest_at_a_glance(std::int64_t before,
                                                 std::vector<std::string>& refused) const;

 private:
  enum class Existing : std::uint8_t { kNone, kEqual, kDamaged };
  using Look = std::vector<std::string> (*)(Files& files, const std::string& folder);
  std::optional<std::int64_t> newest(std::int64_t before, Look look,
                                     std::vector<std::string>& refused) const;
  void publish(const Manifest& manifest);
  Existing existing(const Manifest& manifest) const;
  Manifest write_last_files(const Manifest& manifest, const std::string& folder);
  void move_away(std::int64_t step);
  void write_latest(std::int64_t step);

  Files& files_;
  std::string path_;
};

}  // namespace trireme
