// The files that a value of data.text names: several are one text, in a fixed order.
//
//   book.txt            a file
//   corpus              a folder: its files, but not those of folders in it nor hidden ones
//   corpus/*/a-?.jsonl  a pattern of names: * any part of one, ? a character, [0-9] one of these
//   a.jsonl,corpus      several of these, with commas between them
//
// A file that is called so is that file, whatever its name has. Folders and patterns give files in
// the order of their names (by bytes), a list in its own order.
#pragma once

#include <string>
#include <vector>

#include "framework/base/files.h"

namespace trireme {

// At least one path; of one that is missing, too: whoever opens it says so. Error for a pattern
// that fits no file, a folder without any, and a file that is named twice.
std::vector<std::string> text_files(Files& files, const std::string& value);

// "3 files, corpus/a.txt to corpus/c.txt"; of one its path.
std::string name_of(const std::vector<std::string>& texts);

}  // namespace trireme
