// Can a file be written there? Asked before the work whose result it is.
#pragma once

#include <string>

#include "framework/base/files.h"

namespace trireme {

// UsageError with the option's name if `path` is a folder, or in none.
void check_output_place(Files& files, const std::string& option, const std::string& path);

}  // namespace trireme
