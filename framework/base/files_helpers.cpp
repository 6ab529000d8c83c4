#include "framework/base/error.h"
#include "framework/base/files.h"

namespace trireme {

std::string folder_of(const std::string& path) {
  const std::size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return path.empty() ? "." : "/";
  const std::size_t slash = path.find_last_of('/', end);
  if (slash == std::string::npos) return ".";
  const std::size_t last = path.find_last_not_of('/', slash);
  return last == std::string::npos ? "/" : path.substr(0, last + 1);
}

std::string path_join(const std::string& folder, std::string_view name) {
  std::string path = folder;
  if (!path.empty() && path.back() != '/') path += '/';
  return path.append(name);
}

std::string read_whole(Files& files, const std::string& path, std::int64_t limit) {
  const auto file = files.open(path, OpenMode::kRead);
  const std::int64_t bytes = file->size();
  check(bytes <= limit, "read ", path, ": ", bytes, " bytes, the limit is ", limit);
  std::string text(static_cast<std::size_t>(bytes), '\0');
  file->read(text.data(), bytes, 0);
  return text;
}

void write_whole_atomically(Files& files, const std::string& path, std::string_view bytes) {
  AtomicFile atomic(files, path);
  atomic.file().write(bytes.data(), static_cast<std::int64_t>(bytes.size()), 0);
  atomic.commit();
}

AtomicFile::AtomicFile(Files& files, std::string path)
    : files_(files), path_(std::move(path)), temporary_(files.temporary_name(path_)) {
  file_ = files_.open(temporary_, OpenMode::kCreate);
}

AtomicFile::~AtomicFile() {
  if (renamed_) return;
  try {
    file_.reset();
    files_.remove(temporary_);
  } catch (...) {
    // The error that brought us here is already on its way; a leftover temporary file is harmless.
  }
}

void AtomicFile::commit() {
  file_->sync();
  file_->close();
  files_.rename(temporary_, path_);
  renamed_ = true;
  files_.sync_directory(folder_of(path_));
}

}  // namespace trireme
