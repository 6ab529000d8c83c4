// A folder that appears whole under its name, or not at all.
#pragma once

#include <functional>
#include <string>

#include "framework/base/files.h"

namespace trireme {

// `fill` gets a temporary folder beside `to`, which then takes the name. Error when `to` is there,
// not empty and not to be replaced; after an Error nothing is left. What a killed process has left,
// under the name `to`.tmp-making, the next one for this `to` removes: one process at a time.
void make_folder(Files& files, const std::string& to, bool replace,
                 const std::function<void(const std::string& making)>& fill);

}  // namespace trireme
