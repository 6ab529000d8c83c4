#include "offload/scratch_folder.h"

#include "framework/base/error.h"

namespace trireme {

namespace {

// Runs `call`; what it throws becomes a fault of the folder that was given.
template <typename Call>
void blame(const std::string& folder, const char* what, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    throw UsageError(join("offload.folder = ", folder, what, ": ", error.what()));
  }
}

// An error in passing may be gone at the second try. Nobody can be told of a lasting one: we are in
// a destructor.
template <typename Call>
void try_twice(const Call& call) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      call();
      return;
    } catch (...) {
    }
  }
}

void remove_if_empty(Files& files, const std::string& folder) {
  if (files.exists(folder) && files.list(folder).empty()) files.remove(folder);
}

}  // namespace

ScratchFolder::ScratchFolder(Files& files, const ScratchOptions& options)
    : files_(files),
      folder_(options.folder),
      path_(path_join(options.folder, options.name)),
      owns_folder_(options.make) {
  if (options.folder.empty()) throw UsageError("offload.folder is empty; name a folder");
  if (options.make) {
    blame(folder_, " cannot be made", [&] { files_.make_directories(folder_); });
  } else {
    FileKind kind = FileKind::kMissing;
    blame(folder_, " cannot be used", [&] { kind = files_.status(folder_).kind; });
    if (kind == FileKind::kMissing)
      throw UsageError(join("offload.folder = ", folder_, " does not exist; make it first"));
    if (kind != FileKind::kDirectory)
      throw UsageError(join("offload.folder = ", folder_, " is not a folder"));
  }
  try {
    blame(folder_, " is not writable", [&] {
      files_.remove_all(path_);
      files_.make_private_directory(path_);
    });
  } catch (const Error&) {
    if (owns_folder_) try_twice([&] { remove_if_empty(files_, folder_); });
    throw;
  }
}

ScratchFolder::~ScratchFolder() {
  try_twice([&] { files_.remove_all(path_); });
  if (owns_folder_) try_twice([&] { remove_if_empty(files_, folder_); });
}

void ScratchFolder::expect_room(std::int64_t bytes) const {
  const std::int64_t room = files_.free_space(path_);
  check(bytes <= room, "offload.folder = ", folder_, ": a file of ", bytes,
        " bytes is to be made in ", path_, ", but the disk has only ", room, " free");
}

}  // namespace trireme
