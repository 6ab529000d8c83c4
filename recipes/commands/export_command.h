// trireme checkpoint export FOLDER OUT: a model folder for other programs.
#pragma once

#include <string>

#include "recipes/commands/process.h"

namespace trireme {

// The newest checkpoint of `folder`, which is a run's or a checkpoint itself, as a Hugging Face
// folder `out`. Options: --dtype f32|bf16|f16 (that of the folder the model came from, else f32),
// --shard_size BYTES.
int export_checkpoint(Process& process, const CommandLine& line, const std::string& folder,
                      const std::string& out);

}  // namespace trireme
