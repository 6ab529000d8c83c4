// The text of a recipe file as (key, value, line), before any key is looked up.
//
// Lines are `[section]`, `key = value`, blank, or a comment. `#` and `;` start a comment at the
// beginning of a line or after a blank, outside quotes: `folder = runs/a#b` keeps its `#`, and
// `name = "a # b"` too. Quotes are double or single and enclose a whole value; \" and \\ are
// escapes within double ones. Before the first section keys carry theirs (`model.layers = 4`).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct IniEntry {
  std::string key;    // "model.layers"
  std::string value;  // without quotes and comment
  int line = 0;       // from 1
};

struct IniProblem {
  int line = 0;
  std::string text;
};

struct IniFile {
  std::vector<IniEntry> entries;     // in the file's order; a key may be there twice
  std::vector<IniProblem> problems;  // lines that are none of the four kinds
};

IniFile read_ini(std::string_view text);

// `value` quoted if read_ini would not give it back otherwise.
std::string ini_quoted(const std::string& value);

}  // namespace trireme
