// Single values: from text to the Recipe and back, and the sentences about them.
//
// Text and value are exact inverses: assign(key, text_of(key, recipe), other) gives `other` the
// same value, bit for bit. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "recipes/cli/keys.h"

namespace trireme {

// Sets the key's member of `recipe` from `text` (without quotes). Returns "" or what is wrong, a
// sentence with key, value and legal values; the recipe is unchanged then. For example
//   model.layers = many: expected a whole number from 1 to 100000
//   zero.stage = 2 is not supported yet; legal values: 0
std::string assign(const Key& key, const std::string& text, Recipe& recipe);

// The shortest text that assign() takes back to the same value; not quoted.
std::string text_of(const Key& key, const Recipe& recipe);

// "a whole number from 1 to 100000 (steps), or never".
std::string expected(const Key& key);
// Key's legal values as help shows them: "1 to 100000, or never", "gpt2, llama, mlp".
std::string range_of(const Key& key);

// 12, 25k, 1.5M, 1e6: whole, at most 2^53 in magnitude.
std::optional<std::int64_t> parse_count(std::string_view text);
// 64MiB, 2GiB, 10GB, 512, 1e6, in bytes. A bare M or G is not taken: MiB or MB is meant.
std::optional<std::int64_t> parse_size(std::string_view text);
// Finite.
std::optional<double> parse_number(std::string_view text);
std::optional<bool> parse_bool(std::string_view text);
// Shortest text that reads back as the same double.
std::string number_text(double value);
// 2147483648 -> "2GiB"; exact.
std::string size_text(std::int64_t bytes);

// "1, 2, 3 or 4".
std::string one_of(const std::vector<std::string>& words);

}  // namespace trireme
