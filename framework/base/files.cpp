#include "framework/base/files.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>

#include "framework/base/error.h"

namespace trireme {

namespace {

// A signal storm may interrupt a call again and again; a broken file system may claim so for ever.
constexpr int kMaxInterruptions = 1000;

std::string reason(int error) { return std::generic_category().message(error); }

// Repeats one call while it is interrupted.
template <typename Call>
Outcome patiently(const Call& call) {
  Outcome outcome = call();
  for (int i = 0; i < kMaxInterruptions && outcome.error == EINTR; ++i) outcome = call();
  return outcome;
}

template <typename Call, typename... Parts>
std::int64_t must(const Call& call, const Parts&... parts) {
  const Outcome outcome = patiently(call);
  check(outcome.error == 0, parts..., ": ", reason(outcome.error));
  return outcome.count;
}

void check_range(const char* what, const std::string& path, std::int64_t bytes,
                 std::int64_t offset) {
  check(bytes >= 0 && offset >= 0 && offset <= std::numeric_limits<std::int64_t>::max() - bytes,
        what, " ", path, ": ", bytes, " bytes at offset ", offset, " is not a range");
}

// Moves `bytes` bytes by repeated calls of move(done, left). Stops early only when a call moves
// nothing; the caller decides what that means. `describe` makes the start of the sentence.
template <typename Move, typename Describe>
std::int64_t move_all(std::int64_t bytes, const char* verb, const Move& move,
                      const Describe& describe) {
  std::int64_t done = 0;
  while (done < bytes) {
    const Outcome outcome = patiently([&] { return move(done, bytes - done); });
    check(outcome.error == 0, describe(), ": ", reason(outcome.error), " (", done, " of ", bytes,
          " bytes ", verb, ")");
    if (outcome.count <= 0) break;
    done += outcome.count;
  }
  return done;
}

}  // namespace

std::int64_t File::read_some(void* into, std::int64_t bytes, std::int64_t offset) {
  check_range("read", path_, bytes, offset);
  auto* to = static_cast<std::byte*>(into);
  return move_all(
      bytes, "read",
      [&](std::int64_t done, std::int64_t left) {
        return raw_read(to + done, left, offset + done);
      },
      [&] { return join("read ", path_, ": ", bytes, " bytes at offset ", offset); });
}

void File::read(void* into, std::int64_t bytes, std::int64_t offset) {
  const std::int64_t done = read_some(into, bytes, offset);
  check(done == bytes, "read ", path_, ": ", bytes, " bytes at offset ", offset,
        ": the file ends after ", done, " of them");
}

void File::write(const void* from, std::int64_t bytes, std::int64_t offset) {
  check_range("write", path_, bytes, offset);
  const auto* data = static_cast<const std::byte*>(from);
  const auto describe = [&] {
    return join("write ", path_, ": ", bytes, " bytes at offset ", offset);
  };
  const std::int64_t done = move_all(
      bytes, "written",
      [&](std::int64_t begin, std::int64_t left) {
        return raw_write(data + begin, left, offset + begin);
      },
      describe);
  check(done == bytes, describe(), ": the disk takes no more (", done, " of ", bytes,
        " bytes written)");
}

void File::append(const void* from, std::int64_t bytes) {
  check_range("append to", path_, bytes, 0);
  const auto* data = static_cast<const std::byte*>(from);
  const auto describe = [&] { return join("append to ", path_, ": ", bytes, " bytes"); };
  const std::int64_t done = move_all(
      bytes, "written",
      [&](std::int64_t begin, std::int64_t left) { return raw_append(data + begin, left); },
      describe);
  check(done == bytes, describe(), ": the disk takes no more (", done, " of ", bytes,
        " bytes written)");
}

std::int64_t File::size() {
  return must([&] { return raw_size(); }, "size of ", path_);
}

void File::truncate(std::int64_t bytes) {
  must([&] { return raw_truncate(bytes); }, "truncate ", path_, " to ", bytes, " bytes");
}

void File::sync() {
  must([&] { return raw_sync(); }, "sync ", path_);
}

void File::preallocate(std::int64_t bytes) {
  must([&] { return raw_preallocate(bytes); }, "reserve ", bytes, " bytes for ", path_);
}

std::unique_ptr<Mapping> File::map(std::int64_t offset, std::int64_t bytes) {
  check_range("map", path_, bytes, offset);
  const std::int64_t whole = size();
  check(offset + bytes <= whole, "map ", path_, ": ", bytes, " bytes at offset ", offset,
        ": the file has only ", whole);
  std::unique_ptr<Mapping> mapping;
  if (bytes == 0) return std::make_unique<Mapping>(nullptr, 0, nullptr);
  must([&] { return raw_map(offset, bytes, mapping); }, "map ", path_, ": ", bytes,
       " bytes at offset ", offset);
  return mapping;
}

void File::close() {
  // After EINTR the descriptor is closed on Linux: a second call could close somebody else's.
  const Outcome outcome = raw_close();
  check(outcome.error == 0 || outcome.error == EINTR, "close ", path_, ": ", reason(outcome.error));
}

std::unique_ptr<File> Files::open(const std::string& path, OpenMode mode) {
  std::unique_ptr<File> file;
  const bool creates =
      mode == OpenMode::kCreate || mode == OpenMode::kScratch || mode == OpenMode::kCreateDirect;
  must([&] { return raw_open(path, mode, file); }, creates ? "create " : "open ", path);
  return file;
}

void Files::rename(const std::string& from, const std::string& to) {
  must([&] { return raw_rename(from, to); }, "rename ", from, " to ", to);
}

void Files::remove(const std::string& path) {
  must([&] { return raw_remove(path); }, "remove ", path);
}

void Files::remove_all(const std::string& path) {
  FileStatus status;
  must([&] { return raw_status(path, false, status); }, "look at ", path);
  if (status.kind == FileKind::kMissing) return;
  if (status.kind == FileKind::kDirectory)
    for (const std::string& name : list(path)) remove_all(path_join(path, name));
  remove(path);
}

void Files::make_directories(const std::string& path) {
  const Outcome made = patiently([&] { return raw_make_directory(path); });
  if (made.error == 0) return;
  if (made.error == ENOENT && folder_of(path) != path) {
    make_directories(folder_of(path));
    const Outcome again = patiently([&] { return raw_make_directory(path); });
    if (again.error == 0) return;
    check(again.error == EEXIST, "make directory ", path, ": ", reason(again.error));
  } else {
    check(made.error == EEXIST, "make directory ", path, ": ", reason(made.error));
  }
  check(status(path).kind == FileKind::kDirectory, "make directory ", path,
        ": something else has that name");
}

void Files::make_private_directory(const std::string& path) {
  must([&] { return raw_make_private_directory(path); }, "make directory ", path);
}

std::vector<std::string> Files::list(const std::string& path) {
  std::vector<std::string> names;
  must(
      [&] {
        names.clear();
        return raw_list(path, names);
      },
      "list ", path);
  std::sort(names.begin(), names.end());
  return names;
}

FileStatus Files::status(const std::string& path) {
  FileStatus status;
  must([&] { return raw_status(path, true, status); }, "look at ", path);
  return status;
}

void Files::sync_directory(const std::string& path) {
  must([&] { return raw_sync_directory(path); }, "sync directory ", path);
}

std::int64_t Files::free_space(const std::string& path) {
  return must([&] { return raw_free_space(path); }, "free space at ", path);
}

std::string Files::temporary_name(const std::string& path) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::uint64_t bits = raw_random();
  std::string name = path + ".tmp-";
  for (int i = 0; i < 16; ++i, bits >>= 4) name += kDigits[bits & 15];
  return name;
}

}  // namespace trireme
