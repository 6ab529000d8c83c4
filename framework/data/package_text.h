// Real text that comes with the distribution instead of with the repository:
//   data.text = package:bible-kjv
// is the King James Bible (public domain) as the Debian package bible-kjv prints it: 4.1 MB, one
// verse a line, an empty line between chapters, the verse numbers left out.
#pragma once

#include <string>

#include "framework/base/files.h"
#include "framework/base/program.h"

namespace trireme {

// The file to read for the value of data.text: the value itself, or for "package:NAME" the text in
// the cache folder (made when missing, renamed into place). Error, with a sentence naming the
// package and --data.text=FILE, if the package is not installed or its output is not as expected.
std::string resolve_text(Files& files, const std::string& value, const std::string& cache_folder,
                         const RunProgram& run);

// The text out of what `bible -f gen1:1-rev22:21` prints. Error if a line does not start with a
// reference such as "Ge1:1 ".
std::string bible_text(const std::string& printed);

}  // namespace trireme
