// All file access of the program goes through `Files`, so that tests can inject short counts, EIO,
// ENOSPC, EINTR and crashes at every call (tests/support/faulty_files.h).
//
// Two layers in one class. The `raw_` members are the seam: one system call each, the outcome as a
// count and an errno, nothing thrown, nothing retried; real_files() and the test decorators
// implement them. Everybody else calls the plain members: they loop over short counts and EINTR
// and throw Error with a sentence:
//   write run/metrics.jsonl: 4096 bytes at offset 8192: No space left on device (0 of 4096 bytes
//   written)
//
// Paths are plain strings, relative to the working directory or absolute. A `Files` may be called
// from any thread; one `File` too, except close(). Numbers are bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

// A read-only view of a part of a file. It outlives the File it came from. Touching bytes that
// somebody has since truncated away kills the process: map only files that are renamed into place
// and never shortened.
class Mapping {
 public:
  // `release` gives the memory back; it may be empty.
  Mapping(const std::byte* data, std::int64_t bytes, std::function<void()> release)
      : data_(data), bytes_(bytes), release_(std::move(release)) {}
  ~Mapping() {
    if (release_) release_();
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(data_), static_cast<std::size_t>(bytes_)};
  }

 private:
  const std::byte* data_;
  std::int64_t bytes_;
  std::function<void()> release_;
};

// The answer of one system call: `error` is 0 or an errno; `count` is what it moved or measured.
struct Outcome {
  std::int64_t count = 0;
  int error = 0;
};

// An open file. Destroying it closes it and swallows the error: call close() after writing.
class File {
 public:
  explicit File(std::string path) : path_(std::move(path)) {}
  virtual ~File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  // Do aligned transfers go past the page cache (the direct modes, where the file system can)?
  virtual bool direct() const { return false; }

  // Exactly `bytes` bytes from `offset`; Error if the file ends before.
  void read(void* into, std::int64_t bytes, std::int64_t offset);
  // Up to `bytes`; fewer only at the end of the file. Returns how many.
  std::int64_t read_some(void* into, std::int64_t bytes, std::int64_t offset);
  void write(const void* from, std::int64_t bytes, std::int64_t offset);
  // At the end; for files opened with kAppend. After an Error a part may have been written: the
  // sentence says how much.
  void append(const void* from, std::int64_t bytes);
  void append(std::string_view text) {
    append(text.data(), static_cast<std::int64_t>(text.size()));
  }
  std::int64_t size();
  void truncate(std::int64_t bytes);
  // To the disk (fsync). After an Error the data must be taken as lost: a second sync of the same
  // file may claim success for pages that never reached the disk.
  void sync();
  // Reserves room for the first `bytes` bytes, so that a full disk shows now. The size grows.
  void preallocate(std::int64_t bytes);
  // Error if the range is not inside the file.
  std::unique_ptr<Mapping> map(std::int64_t offset, std::int64_t bytes);
  // Once; later calls do nothing.
  void close();

  // The seam.
  virtual Outcome raw_read(void* into, std::int64_t bytes, std::int64_t offset) = 0;  // 0: the end
  virtual Outcome raw_write(const void* from, std::int64_t bytes, std::int64_t offset) = 0;
  virtual Outcome raw_append(const void* from, std::int64_t bytes) = 0;
  virtual Outcome raw_size() = 0;
  virtual Outcome raw_truncate(std::int64_t bytes) = 0;
  virtual Outcome raw_sync() = 0;
  virtual Outcome raw_preallocate(std::int64_t bytes) = 0;
  // `offset` need not be a multiple of the page size.
  virtual Outcome raw_map(std::int64_t offset, std::int64_t bytes,
                          std::unique_ptr<Mapping>& into) = 0;
  virtual Outcome raw_close() = 0;

 private:
  std::string path_;
};

enum class OpenMode : std::uint8_t {
  kRead,       // must exist
  kCreate,     // must not exist; read and write
  kAppend,     // made if missing; append() only
  kReadWrite,  // made if missing; keeps what is there
  // Must not exist; read and write, for the owner only (0600). Transfers whose memory, bytes and
  // offset are all multiples of 4096 go past the page cache (O_DIRECT) where the file system allows
  // it, others through it; both see the same bytes.
  kScratch,
  // As kCreate, for large files that are seldom read back soon: transfers as with kScratch.
  kCreateDirect,
  // As kRead, for large files that are read once: such a transfer takes what is in the page cache
  // from there, and else goes past it.
  kReadDirect,
};

enum class FileKind : std::uint8_t { kMissing, kFile, kDirectory, kOther };

struct FileStatus {
  FileKind kind = FileKind::kMissing;
  std::int64_t bytes = 0;                 // of a file
  std::int64_t modified_nanoseconds = 0;  // since 1970
};

class Files {
 public:
  Files() = default;
  virtual ~Files() = default;
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  // A directory is refused in every mode.
  std::unique_ptr<File> open(const std::string& path, OpenMode mode);
  // Atomic; replaces `to`. Durable only after sync_directory of the folder.
  void rename(const std::string& from, const std::string& to);
  // A file or an empty directory. Error if missing.
  void remove(const std::string& path);
  // With everything inside; nothing happens if missing. Links are removed, never followed.
  void remove_all(const std::string& path);
  // With parents; fine if they are there.
  void make_directories(const std::string& path);
  // One level, for the owner only (0700). Error if anything has that name already.
  void make_private_directory(const std::string& path);
  // Names (not paths) of the entries, sorted, without "." and "..".
  std::vector<std::string> list(const std::string& path);
  FileStatus status(const std::string& path);  // follows links; kMissing is an answer, not an Error
  bool exists(const std::string& path) { return status(path).kind != FileKind::kMissing; }
  // Makes renames and new entries in this folder durable.
  void sync_directory(const std::string& path);
  // What an ordinary user may still write on the disk that holds `path`.
  std::int64_t free_space(const std::string& path);
  // "PATH.tmp-0123456789abcdef", in the same folder, so that a rename stays on one disk.
  std::string temporary_name(const std::string& path);

  // The seam.
  virtual Outcome raw_open(const std::string& path, OpenMode mode, std::unique_ptr<File>& into) = 0;
  virtual Outcome raw_rename(const std::string& from, const std::string& to) = 0;
  virtual Outcome raw_remove(const std::string& path) = 0;
  virtual Outcome raw_make_directory(const std::string& path) = 0;  // one level
  virtual Outcome raw_make_private_directory(const std::string& path) = 0;
  virtual Outcome raw_list(const std::string& path, std::vector<std::string>& into) = 0;
  virtual Outcome raw_status(const std::string& path, bool follow_link, FileStatus& into) = 0;
  virtual Outcome raw_sync_directory(const std::string& path) = 0;
  virtual Outcome raw_free_space(const std::string& path) = 0;
  virtual std::uint64_t raw_random() = 0;  // for temporary names
};

// The operating system's files.
std::unique_ptr<Files> real_files();

// The folder part of a path: "a/b" -> "a", "b" -> ".", "/b" -> "/".
std::string folder_of(const std::string& path);
// folder + "/" + name; just name if folder is empty.
std::string path_join(const std::string& folder, std::string_view name);

// The whole file. Error if missing, a directory, or longer than `limit` bytes.
std::string read_whole(Files& files, const std::string& path,
                       std::int64_t limit = std::int64_t{1} << 40);

// Writes a temporary file beside `path`, syncs, renames it over `path`, syncs the folder. Whatever
// fails, or if the machine stops, `path` is the old file or the new one, whole.
void write_whole_atomically(Files& files, const std::string& path, std::string_view bytes);

// The same in steps, for writers that produce their bytes piece by piece: write into file(), then
// commit(). Destroyed without commit(), it removes the temporary file.
class AtomicFile {
 public:
  AtomicFile(Files& files, std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  File& file() { return *file_; }
  const std::string& temporary() const { return temporary_; }
  // Sync, close, rename, sync the folder.
  void commit();

 private:
  Files& files_;
  std::string path_;
  std::string temporary_;
  std::unique_ptr<File> file_;
  bool renamed_ = false;
};

}  // namespace trireme
