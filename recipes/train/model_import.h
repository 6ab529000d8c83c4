// From a Hugging Face folder to a checkpoint of step 0, whatever the layout that will load it:
// weights as f32 (f64 where they are stored so), no state of an optimizer. For generate, evaluate,
// checkpoint inspect, verify, diff and export, and for runs with model.from = the folder.
//
// Tensors are read, converted and written in blocks of 1 MiB; the checkpoint appears whole or not
// at all, with hashes of its own from then on. What an import that was killed has left, the next
// one removes; the same folder imported once more is compared bit by bit, and stays.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "framework/base/files.h"
#include "recipes/cli/recipe.h"

namespace trireme {

struct ImportedModel {
  std::string place;  // of the checkpoint
  std::int64_t parameters = 0;
};

// `recipe`: resolved; model.from is the folder, train.folder where the checkpoint goes. Error if
// there is a run already, or another import, for tensors that are missing, too many or of other
// shapes, and where the disk has no room. `progress` gets bytes, and may be empty.
ImportedModel import_model(
    Files& files, const Recipe& recipe,
    const std::function<void(std::int64_t done, std::int64_t all)>& progress);

}  // namespace trireme
