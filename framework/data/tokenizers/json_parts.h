// How the parts of a tokenizer.json are asked: what nobody expects is refused by quoting it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "framework/base/json/json.h"

namespace trireme {

// The member "type" of a part.
std::string type_of(const Json& part, const std::string& what);

// Error that quotes the first member of `part` that is not in the list.
void expect_members(const Json& part, const std::string& what,
                    std::initializer_list<std::string_view> known);

// Sequences may hold sequences, but not for ever.
void expect_depth(int depth, const std::string& what);

// The member "pattern": {"String": "..."}, not empty. A {"Regex": ...} is refused by quoting it.
std::string literal_pattern(const Json& part, const std::string& what);

// A member that may be missing.
bool boolean_or(const Json& part, std::string_view key, const std::string& what, bool otherwise);

// Error unless the member is missing, null or the empty string.
void expect_empty(const Json& part, std::string_view key, const std::string& what);

// An id: a whole number in [0, limit).
std::int32_t token_id(const Json& json, const std::string& what, std::int64_t limit);

// Cut to a few words, control characters and wrong bytes as "\x.."; for errors.
std::string quoted(std::string_view text);

}  // namespace trireme
