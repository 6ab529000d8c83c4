#include "recipes/cli/recipe_text.h"

#include "framework/base/error.h"
#include "recipes/cli/ini_file.h"
#include "recipes/cli/keys.h"
#include "recipes/cli/validate.h"
#include "recipes/cli/values.h"

namespace trireme {

std::string resolved_text(const Recipe& recipe) {
  std::string text = "# Every key of the run, resolved. Starts the same run again.\n";
  std::string_view section;
  for (const Key& key : keys()) {
    if (key.section != section) text += "\n[" + std::string(key.section) + "]\n";
    section = key.section;
    std::string value = ini_quoted(text_of(key, recipe));
    text += std::string(key.name) + " =" + (value.empty() ? "" : " " + value) + "\n";
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> differences_from_default(const Recipe& recipe) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const Key& key : keys()) {
    Recipe plain = recipe;
    std::string problem = assign(key, std::string(key.initial), plain);
    if (!problem.empty()) fail("key table: default of ", key.full_name(), ": ", problem);
    resolve(plain);
    std::string value = text_of(key, recipe);
    if (value != text_of(key, plain)) found.emplace_back(key.full_name(), value);
  }
  return found;
}

}  // namespace trireme
