// trireme checkpoint import FOLDER RUN [--section.key=value ...]: see recipes/train/model_import.h.
#pragma once

#include <string>

#include "recipes/commands/process.h"

namespace trireme {

// Flags are keys of the recipe that the checkpoint will say it was made with.
int import_folder(Process& process, const CommandLine& line, const std::string& folder,
                  const std::string& run);

}  // namespace trireme
