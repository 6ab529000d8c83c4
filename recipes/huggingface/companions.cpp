#include "recipes/huggingface/companions.h"

#include <algorithm>
#include <array>

namespace trireme {

namespace {

constexpr std::array<std::string_view, 8> kCompanions = {"tokenizer.json",
                                                         "tokenizer_config.json",
                                                         "special_tokens_map.json",
                                                         "tokenizer.model",
                                                         "added_tokens.json",
                                                         "chat_template.jinja",
                                                         "vocab.json",
                                                         "merges.txt"};
constexpr char kTemplates[] = "additional_chat_templates";

void copy_templates(Files& files, const std::string& from, const std::string& to) {
  const std::string own = path_join(from, kTemplates), theirs = path_join(to, kTemplates);
  if (files.status(own).kind != FileKind::kDirectory) return;
  files.make_directories(theirs);
  for (const std::string& name : files.list(own))
    if (name.ends_with(".jinja"))
      write_whole_atomically(files, path_join(theirs, name),
                             read_whole(files, path_join(own, name)));
  files.sync_directory(theirs);
}

}  // namespace

bool is_companion(std::string_view name) {
  return std::find(kCompanions.begin(), kCompanions.end(), name) != kCompanions.end();
}

void copy_companions(Files& files, const std::string& from, const std::string& to) {
  for (const std::string_view companion : kCompanions) {
    const std::string name(companion), path = path_join(from, name);
    if (files.status(path).kind == FileKind::kFile)
      write_whole_atomically(files, path_join(to, name), read_whole(files, path));
  }
  copy_templates(files, from, to);
}

}  // namespace trireme
