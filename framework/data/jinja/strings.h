// Python's operations on strings, with the origin of each byte kept.
#pragma once

#include <string>
#include <vector>

#include "framework/data/jinja/budget.h"
#include "framework/data/jinja/value.h"

namespace trireme::jinja {

std::int64_t character_count(const std::string& text);
// Without characters of `set` at its ends (ASCII; empty: blanks, as Python's strip does).
Text stripped(const Text& text, const std::string& set, bool front, bool back);
// Null `by`: at runs of blanks, without empty parts. most < 0: everywhere.
Value split(const Text& text, const Text* by, std::int64_t most, Budget& budget);
Value split_lines(const Text& text, Budget& budget);
Text replaced(const Text& text, const Text& from, const Text& to, std::int64_t most,
              Budget& budget);
Text joined(const std::vector<Value>& items, const Text& between, Budget& budget);
// "upper", "lower", "title", "capitalize".
Text cased(const Text& text, const std::string& how);
// Every line but the first (with `first`: that too) that is not empty, moved by `width` blanks.
Text indented(const Text& text, std::int64_t width, bool first, bool blank, Budget& budget);

}  // namespace trireme::jinja
