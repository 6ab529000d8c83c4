// Standard input as a text.
#pragma once

#include <string>

namespace trireme {

// All of it, up to its end. Error if it has more than `limit` bytes.
std::string read_standard_input(std::int64_t limit = std::int64_t{1} << 30);

}  // namespace trireme
