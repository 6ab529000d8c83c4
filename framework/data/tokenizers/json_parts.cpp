#include "framework/data/tokenizers/json_parts.h"

#include <algorithm>

#include "framework/base/error.h"
#include "framework/data/tokenizers/utf8.h"

namespace trireme {

std::string type_of(const Json& part, const std::string& what) {
  return part.at("type", what).text(what + ".type");
}

void expect_members(const Json& part, const std::string& what,
                    std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : part.object(what))
    if (std::find(known.begin(), known.end(), name) == known.end())
      fail(what, ": the option \"", name, "\" = ", describe(value), " is not supported");
}

void expect_depth(int depth, const std::string& what) {
  check(depth < 8, what, ": more than 8 sequences inside one another");
}

std::string literal_pattern(const Json& part, const std::string& what) {
  const Json& pattern = part.at("pattern", what);
  if (const Json* regex = pattern.find("Regex"))
    fail(what, ": the regular expression ", describe(*regex),
         " is not supported here; a {\"String\": ...} is");
  expect_members(pattern, what + ".pattern", {"String"});
  const std::string text = pattern.at("String", what + ".pattern").text(what + ".pattern.String");
  check(!text.empty(), what, ".pattern.String is empty");
  return text;
}

bool boolean_or(const Json& part, std::string_view key, const std::string& what, bool otherwise) {
  const Json* found = part.find(key);
  return found == nullptr ? otherwise : found->boolean(join(what, ".", key));
}

void expect_empty(const Json& part, std::string_view key, const std::string& what) {
  const Json* found = part.find(key);
  if (found == nullptr || found->is_null()) return;
  const std::string name = join(what, ".", key);
  check(found->text(name).empty(), name, " = ", describe(*found),
        " is not supported; null or \"\" is");
}

std::int32_t token_id(const Json& json, const std::string& what, std::int64_t limit) {
  const std::int64_t id = json.integer(what);
  check(id >= 0 && id < limit, what, " = ", id,
        " is no token id; a file of this size may have ids from 0 to ", limit - 1);
  return static_cast<std::int32_t>(id);
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kShown = 60;
  std::string shown = "\"";
  for (std::size_t at = 0; at < text.size();) {
    if (at >= kShown) return shown + "...\"";
    const CodePoint c = code_point_at(text, at);
    if (c.value == kNoCodePoint || c.value < 32 || c.value == 127)
      shown += join("\\x", "0123456789abcdef"[static_cast<unsigned char>(text[at]) >> 4],
                    "0123456789abcdef"[static_cast<unsigned char>(text[at]) & 15]);
    else
      shown += text.substr(at, c.bytes);
    at += c.value == kNoCodePoint ? 1 : c.bytes;
  }
  return shown + "\"";
}

}  // namespace trireme
