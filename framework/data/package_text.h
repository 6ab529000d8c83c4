// Real text that comes with the distribution instead of with the repository:
//   data.text = package:bible-kjv
// is the King James Bible (public domain) as the Debian package bible-kjv prints it: 4.1 MB, one
// verse a line, an empty line between chapters, the verse numbers left out.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/base/files.h"

namespace trireme {

// What came of running a program.
struct ProgramResult {
  bool found = false;  // false: there is no such program
  int status = 0;      // its exit status; 128 + signal if it was killed
  std::string output;  // its standard output
};

// Runs argv[0], looked up in PATH, and waits for it. Given by the caller: the library starts no
// programs by itself.
using RunProgram = std::function<ProgramResult(const std::vector<std::string>& argv)>;

// The file to read for the value of data.text: the value itself, or for "package:NAME" the text in
// the cache folder (made when missing, renamed into place). Error, with a sentence naming the
// package and --data.text=FILE, if the package is not installed or its output is not as expected.
std::string resolve_text(Files& files, const std::string& value, const std::string& cache_folder,
                         const RunProgram& run);

// The text out of what `bible -f gen1:1-rev22:21` prints. Error if a line does not start with a
// reference such as "Ge1:1 ".
std::string bible_text(const std::string& printed);

}  // namespace trireme
