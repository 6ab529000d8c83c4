// What a model folder has beside config and weights: its tokenizer and its chat template.
#pragma once

#include <string>
#include <string_view>

#include "framework/base/files.h"

namespace trireme {

// Is that the name of one of their files?
bool is_companion(std::string_view name);
// Those that `from` has, byte by byte; of chat templates the folder of further ones, too.
void copy_companions(Files& files, const std::string& from, const std::string& to);

}  // namespace trireme
