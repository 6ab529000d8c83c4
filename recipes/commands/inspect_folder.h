// trireme checkpoint inspect FOLDER of a Hugging Face model, or of adapters: what is stored there.
#pragma once

#include <string>

#include "recipes/commands/process.h"

namespace trireme {

// Does it look like one: config.json or adapter_config.json?
bool is_stored_model(Files& files, const std::string& folder);
int inspect_stored_model(Process& process, const CommandLine& line, const std::string& folder);

}  // namespace trireme
