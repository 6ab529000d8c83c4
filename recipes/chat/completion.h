// What the Tab key does in a chat: names of commands and of settings, and files for the commands
// that take one. A message is never completed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/base/files.h"

namespace trireme {

struct Completion {
  std::string text;                  // to be inserted at the cursor
  std::vector<std::string> choices;  // if there are several, and no text
};

// Of a line up to the cursor. A folder that cannot be read has nothing in it.
Completion complete_line(std::string_view line, Files& files);

}  // namespace trireme
