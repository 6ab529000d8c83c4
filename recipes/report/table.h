// Columns of text for terminals and logs.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// Rows as lines: the first column to the left, the others to the right, two blanks between. Rows
// may be of different lengths. Counts bytes, so cells should be ASCII.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

}  // namespace trireme
