#include "framework/data/text_files.h"

#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "framework/base/error.h"

namespace trireme {

namespace {

bool is_pattern(const std::string& name) { return name.find_first_of("*?[") != std::string::npos; }

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::string trimmed(std::string text) {
  text.erase(0, text.find_first_not_of(' '));
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

// Of a folder's entries those that `pattern` fits, as paths.
std::vector<std::string> fitting(Files& files, const std::string& folder,
                                 const std::string& pattern, FileKind kind) {
  std::vector<std::string> found;
  if (files.status(folder.empty() ? "." : folder).kind != FileKind::kDirectory) return found;
  for (const std::string& name : files.list(folder.empty() ? "." : folder)) {
    const std::string path = folder == "/" ? folder + name : path_join(folder, name);
    if (fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0 && files.status(path).kind == kind)
      found.push_back(path);
  }
  return found;
}

std::vector<std::string> in_folder(Files& files, const std::string& folder) {
  std::vector<std::string> found = fitting(files, folder, "*", FileKind::kFile);
  const std::size_t folders = fitting(files, folder, "*", FileKind::kDirectory).size();
  check(!found.empty(), "text ", folder, " is a folder without a file",
        folders == 0 ? ""
                     : join("; the ", folders, " in it are not entered: ", path_join(folder, "*/*"),
                            " names their files"));
  return found;
}

std::vector<std::string> of_pattern(Files& files, const std::string& pattern) {
  check(pattern.find("**") == std::string::npos, "text ", pattern,
        ": ** is not known; * is any part of one name, so */* names the files of each folder");
  std::vector<std::string> found{pattern.starts_with("/") ? "/" : ""};
  const std::vector<std::string> parts = split(pattern, '/');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty()) continue;
    const FileKind kind = i + 1 == parts.size() ? FileKind::kFile : FileKind::kDirectory;
    std::vector<std::string> next;
    for (const std::string& folder : found) {
      const std::string path = folder == "/" ? folder + parts[i] : path_join(folder, parts[i]);
      const std::vector<std::string> here =
          is_pattern(parts[i])              ? fitting(files, folder, parts[i], kind)
          : files.status(path).kind == kind ? std::vector<std::string>{path}
                                            : std::vector<std::string>{};
      next.insert(next.end(), here.begin(), here.end());
    }
    found = std::move(next);
  }
  check(!found.empty(), "text ", pattern, ": no file has such a name");
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> of_item(Files& files, const std::string& item) {
  const FileKind kind = files.status(item).kind;
  if (kind == FileKind::kDirectory) return in_folder(files, item);
  if (kind == FileKind::kMissing && is_pattern(item)) return of_pattern(files, item);
  return {item};
}

}  // namespace

std::vector<std::string> text_files(Files& files, const std::string& value) {
  if (files.status(value).kind == FileKind::kFile) return {value};
  std::vector<std::string> all;
  for (const std::string& part : split(value, ',')) {
    const std::string item = trimmed(part);
    if (item.empty()) continue;
    const std::vector<std::string> some = of_item(files, item);
    all.insert(all.end(), some.begin(), some.end());
  }
  check(!all.empty(), "data.text = ", value, " names no file");
  std::set<std::string> seen;
  for (const std::string& path : all)
    check(seen.insert(path).second, "data.text = ", value, " names ", path, " twice");
  return all;
}

std::string name_of(const std::vector<std::string>& texts) {
  if (texts.size() == 1) return texts[0];
  return join(texts.size(), " files, ", texts.front(), " to ", texts.back());
}

}  // namespace trireme
