// Streamed weights out of a model folder's own files: nothing is loaded, nothing is copied.
#pragma once

#include <string>

#include "recipes/huggingface/folder.h"
#include "recipes/train/save_session.h"

namespace trireme {

// Makes the engine's stream read the folder's tensors where they lie, if they lie there as this
// rank wants them, on all ranks: same type, whole rows, not transposed. Otherwise nothing happens,
// and what it returns says why, alike on all ranks. `asked` gets the names of the rank's logical
// tensors, a line each. Collective over the world.
std::string stream_in_place(const SaveRank& rank, const HfFolder& folder, std::string& asked);

}  // namespace trireme
