// trireme checkpoint export|merge FOLDER OUT: a model folder for other programs; adapters, as PEFT
// keeps them, where a run trained those.
#pragma once

#include <string>

#include "recipes/commands/process.h"

namespace trireme {

// The newest checkpoint of `folder`, which is a run's or a checkpoint itself, as a Hugging Face
// folder `out`. Options: --dtype f32|bf16|f16 (that of the folder the model came from, else f32),
// --shard_size BYTES.
int export_checkpoint(Process& process, const CommandLine& line, const std::string& folder,
                      const std::string& out);

// The base with the adapters of `folder`, which is a run's, a checkpoint or PEFT's, as a whole
// model folder `out`. Options: --base FOLDER (that of the run, or of PEFT's config).
int merge_checkpoint(Process& process, const CommandLine& line, const std::string& folder,
                     const std::string& out);

// What train.export asks for, at the end of a run: its newest checkpoint as the folder
// export_folder(train.folder), instead of one that is there. Tells it on standard error.
void export_run(Process& process, const Recipe& recipe);

}  // namespace trireme
