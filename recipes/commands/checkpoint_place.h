// Which checkpoints a folder on the command line means.
#pragma once

#include <string>
#include <vector>

#include "framework/base/files.h"

namespace trireme {

// The folder itself if it is a checkpoint, else all of a run folder (or of its checkpoints/),
// oldest first. Throws Error if there is none.
std::vector<std::string> checkpoints_in(Files& files, const std::string& folder);

}  // namespace trireme
