#include "recipes/chat/completion.h"

#include <algorithm>

#include "framework/base/error.h"
#include "recipes/chat/answer_settings.h"
#include "recipes/chat/chat_commands.h"
#include "recipes/report/printable.h"

namespace trireme {

namespace {

// The names that begin so. One: its rest, with `behind`; several: what they have in common.
Completion complete_word(std::string_view begun, std::vector<std::string> names,
                         const std::string& behind) {
  std::erase_if(names, [&](const std::string& name) { return !name.starts_with(begun); });
  if (names.empty()) return {};
  std::size_t common = names[0].size();
  for (const std::string& name : names) {
    const auto differs = std::mismatch(names[0].begin(), names[0].end(), name.begin(), name.end());
    common = std::min(common, static_cast<std::size_t>(differs.first - names[0].begin()));
  }
  while (common > begun.size() && common < names[0].size() && (names[0][common] & 0xC0) == 0x80)
    --common;  // no half characters
  Completion c{.text = names[0].substr(begun.size(), common - begun.size())};
  if (names.size() == 1 && !names[0].ends_with('/')) c.text += behind;
  if (names.size() > 1 && c.text.empty()) {
    std::sort(names.begin(), names.end());
    c.choices = std::move(names);
  }
  return c;
}

// Files and folders; hidden ones if asked for by their dot, names of odd characters never.
Completion complete_path(std::string_view path, Files& files) {
  const std::size_t slash = path.rfind('/');
  const std::size_t begin = slash == std::string_view::npos ? 0 : slash + 1;
  const std::string folder(path.substr(0, begin));
  const std::string_view begun = path.substr(begin);
  std::vector<std::string> names;
  try {
    for (std::string& name : files.list(folder.empty() ? "." : folder)) {
      if (!name.starts_with(begun) || (name.starts_with('.') && begun.empty())) continue;
      if (printable(name) != name || name.find('\n') != std::string::npos) continue;
      if (files.status(folder + name).kind == FileKind::kDirectory) name += '/';
      names.push_back(std::move(name));
    }
  } catch (const Error&) {
    return {};
  }
  return complete_word(begun, std::move(names), "");
}

}  // namespace

Completion complete_line(std::string_view line, Files& files) {
  if (!line.starts_with('/')) return {};
  const std::size_t blank = std::min(line.find(' '), line.size());
  const std::string_view name = line.substr(1, blank - 1);
  if (blank == line.size()) {
    std::vector<std::string> names;
    bool takes = true;  // an argument
    for (const ChatCommand& c : chat_commands()) {
      names.emplace_back(c.name);
      if (c.name.starts_with(name)) takes = !c.arguments.empty();
    }
    return complete_word(name, std::move(names), takes ? " " : "");
  }
  std::string_view rest = line.substr(blank);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  if (name == "read" || name == "save" || name == "load") return complete_path(rest, files);
  if (rest.find(' ') != std::string_view::npos) return {};
  if (name == "set") return complete_word(rest, setting_names(), " ");
  if (name == "retry") return complete_word(rest, {"same"}, "");
  return {};
}

}  // namespace trireme
