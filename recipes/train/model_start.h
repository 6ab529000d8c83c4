// The begin of a run from a model folder: weights and masters of every rank, under any layout.
#pragma once

#include "framework/base/files.h"
#include "recipes/train/save_session.h"

namespace trireme {

// Replaces weights and masters by those of a Hugging Face folder; moments become zero. Collective
// over the world; whatever fails on any rank fails on all. Error naming tensors that are missing,
// have another shape, or belong to no tensor of this model.
void load_model_folder(const SaveRank& rank, Files& files, const std::string& folder);

}  // namespace trireme
