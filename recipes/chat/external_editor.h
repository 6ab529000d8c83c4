// A person's own editor on a text.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "framework/base/files.h"
#include "recipes/chat/interrupts.h"

namespace trireme {

// `command` is what a shell runs with the name of a temporary file in `folder` (0600, removed
// afterwards) behind it. The text as it was left, without line ends at its end; nothing if the
// editor failed. `idle` is called about twice a second meanwhile. Throws Error for the file.
std::optional<std::string> edited(Files& files, const std::string& command,
                                  const std::string& folder, const std::string& text,
                                  Interrupts& interrupts, const std::function<void()>& idle);

}  // namespace trireme
