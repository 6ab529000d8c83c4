// The begin of a run from a model folder or a checkpoint: weights and masters of every rank, under
// any layout.
#pragma once

#include "framework/base/files.h"
#include "recipes/train/save_session.h"

namespace trireme {

// The checkpoint that model.from = `folder` means where that is no Hugging Face folder: itself, or
// the newest of a run. Empty if it has none.
std::string start_checkpoint(Files& files, const std::string& folder);

// Replaces weights and masters by those of a Hugging Face folder, or of start_checkpoint(); moments
// become zero. Collective
// over the world; whatever fails on any rank fails on all. Error naming tensors that are missing,
// have another shape, or belong to no tensor of this model.
void load_model_folder(const SaveRank& rank, Files& files, const std::string& folder);

}  // namespace trireme
