#include "recipes/commands/output_place.h"

#include "framework/base/error.h"

namespace trireme {

void check_output_place(Files& files, const std::string& option, const std::string& path) {
  if (files.status(path).kind == FileKind::kDirectory)
    throw UsageError(
        join("--", option, ": ", path, " is a folder; the name of a file is expected"));
  const std::string folder = folder_of(path);
  if (files.status(folder).kind != FileKind::kDirectory)
    throw UsageError(join("--", option, ": ", path, ": there is no folder ", folder));
}

}  // namespace trireme
