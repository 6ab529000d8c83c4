// The POSIX side of the seam: each member is one system call (the open of a file with direct
// transfers is two).
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "framework/base/files.h"

namespace trireme {

namespace {

Outcome outcome_of(std::int64_t result) {
  return result < 0 ? Outcome{0, errno} : Outcome{result, 0};
}

// Closes what no object owns yet, when there is no memory for one.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

class PosixFile : public File {
 public:
  PosixFile(std::string path, int descriptor) : File(std::move(path)), descriptor_(descriptor) {}
  ~PosixFile() override { PosixFile::raw_close(); }

  Outcome raw_read(void* into, std::int64_t bytes, std::int64_t offset) override {
    return outcome_of(::pread(descriptor_, into, static_cast<std::size_t>(bytes), offset));
  }
  Outcome raw_write(const void* from, std::int64_t bytes, std::int64_t offset) override {
    return outcome_of(::pwrite(descriptor_, from, static_cast<std::size_t>(bytes), offset));
  }
  Outcome raw_append(const void* from, std::int64_t bytes) override {
    return outcome_of(::write(descriptor_, from, static_cast<std::size_t>(bytes)));
  }
  Outcome raw_size() override {
    struct stat info = {};
    if (::fstat(descriptor_, &info) != 0) return {0, errno};
    return {info.st_size, 0};
  }
  Outcome raw_truncate(std::int64_t bytes) override {
    return outcome_of(::ftruncate(descriptor_, bytes));
  }
  Outcome raw_sync() override { return outcome_of(::fsync(descriptor_)); }
  Outcome raw_preallocate(std::int64_t bytes) override {
    return bytes == 0 ? Outcome{} : Outcome{0, ::posix_fallocate(descriptor_, 0, bytes)};
  }
  Outcome raw_map(std::int64_t offset, std::int64_t bytes,
                  std::unique_ptr<Mapping>& into) override {
    const std::int64_t page = ::sysconf(_SC_PAGESIZE);
    const std::int64_t lead = offset % page;
    const auto length = static_cast<std::size_t>(lead + bytes);
    void* start = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, descriptor_, offset - lead);
    if (start == MAP_FAILED) return {0, errno};
    const auto give_back = [start, length] { ::munmap(start, length); };
    try {
      into =
          std::make_unique<Mapping>(static_cast<const std::byte*>(start) + lead, bytes, give_back);
    } catch (...) {
      give_back();
      throw;
    }
    return {bytes, 0};
  }
  Outcome raw_close() override {
    if (descriptor_ < 0) return {};
    const int descriptor = descriptor_;
    descriptor_ = -1;
    return outcome_of(::close(descriptor));
  }

 protected:
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

// Such a file has two descriptors, since only whole aligned blocks may pass by the page cache:
// the rest of a transfer after a short count, for instance, may not.
class DirectFile : public PosixFile {
 public:
  // `direct` < 0: the file system has no O_DIRECT.
  DirectFile(std::string path, int buffered, int direct)
      : PosixFile(std::move(path), buffered), direct_descriptor_(direct), direct_(direct >= 0) {}
  ~DirectFile() override { DirectFile::raw_close(); }

  bool direct() const override { return direct_; }

  Outcome raw_read(void* into, std::int64_t bytes, std::int64_t offset) override {
    if (fits(into, bytes, offset)) {
      const Outcome outcome =
          outcome_of(::pread(direct_descriptor_, into, static_cast<std::size_t>(bytes), offset));
      if (!refused(outcome)) return outcome;
    }
    return PosixFile::raw_read(into, bytes, offset);
  }
  Outcome raw_write(const void* from, std::int64_t bytes, std::int64_t offset) override {
    if (fits(from, bytes, offset)) {
      const Outcome outcome =
          outcome_of(::pwrite(direct_descriptor_, from, static_cast<std::size_t>(bytes), offset));
      if (!refused(outcome)) return outcome;
    }
    return PosixFile::raw_write(from, bytes, offset);
  }
  Outcome raw_close() override {
    const Outcome buffered = PosixFile::raw_close();
    if (direct_descriptor_ < 0) return buffered;
    const Outcome outcome = outcome_of(::close(direct_descriptor_));
    direct_descriptor_ = -1;
    return buffered.error != 0 ? buffered : outcome;
  }

 protected:
  bool fits(const void* memory, std::int64_t bytes, std::int64_t offset) const {
    return direct_ && reinterpret_cast<std::uintptr_t>(memory) % kBlock == 0 &&
           bytes % kBlock == 0 && offset % kBlock == 0;
  }
  static constexpr std::int64_t kBlock = 4096;  // a page, too: of other sizes mmap refuses some

 private:
  // Some file systems open a file for O_DIRECT and refuse its transfers, or want larger blocks.
  bool refused(const Outcome& outcome) {
    if (outcome.error == EINVAL) direct_ = false;
    return outcome.error == EINVAL;
  }

  int direct_descriptor_;
  std::atomic<bool> direct_;  // transfers may run on several threads
};

// Bytes that are in the page cache are not asked of the disk again. To try to read them from there
// without waiting would make the kernel read ahead what is then read past the cache as well.
class ReadOnceFile final : public DirectFile {
 public:
  using DirectFile::DirectFile;

  Outcome raw_read(void* into, std::int64_t bytes, std::int64_t offset) override {
    if (fits(into, bytes, offset) && is_cached(bytes, offset))
      return PosixFile::raw_read(into, bytes, offset);
    return DirectFile::raw_read(into, bytes, offset);
  }

 private:
  bool is_cached(std::int64_t bytes, std::int64_t offset) const {
    const auto length = static_cast<std::size_t>(bytes);
    void* const view = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, descriptor(), offset);
    if (view == MAP_FAILED) return false;
    std::array<unsigned char, 64> pages;
    bool all = true;
    constexpr std::int64_t kStep = std::int64_t{std::tuple_size_v<decltype(pages)>} * kBlock;
    for (std::int64_t at = 0; all && at < bytes; at += kStep) {
      const std::int64_t part = std::min(kStep, bytes - at);
      all = ::mincore(static_cast<std::byte*>(view) + at, static_cast<std::size_t>(part),
                      pages.data()) == 0 &&
            std::all_of(pages.begin(), pages.begin() + part / kBlock,
                        [](unsigned char page) { return (page & 1) != 0; });
    }
    ::munmap(view, length);
    return all;
  }
};

int flags_of(OpenMode mode) {
  switch (mode) {
    case OpenMode::kRead:
    case OpenMode::kReadDirect:
      return O_RDONLY | O_NONBLOCK;  // a pipe must not make the open wait
    case OpenMode::kCreate:
    case OpenMode::kScratch:
    case OpenMode::kCreateDirect:
      return O_RDWR | O_CREAT | O_EXCL;
    case OpenMode::kAppend:
      return O_WRONLY | O_CREAT | O_APPEND;
    case OpenMode::kReadWrite:
      return O_RDWR | O_CREAT;
  }
  return O_RDONLY;
}

FileKind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return FileKind::kFile;
  return S_ISDIR(mode) ? FileKind::kDirectory : FileKind::kOther;
}

class PosixFiles final : public Files {
 public:
  Outcome raw_open(const std::string& path, OpenMode mode, std::unique_ptr<File>& into) override {
    const int rights = mode == OpenMode::kScratch ? 0600 : 0666;
    Descriptor descriptor(::open(path.c_str(), flags_of(mode) | O_CLOEXEC, rights));
    if (descriptor.get() < 0) return {0, errno};
    if (mode == OpenMode::kScratch || mode == OpenMode::kCreateDirect)
      return finish_direct(path, descriptor, into);
    struct stat info = {};
    if (::fstat(descriptor.get(), &info) != 0) return {0, errno};
    if (S_ISDIR(info.st_mode)) return {0, EISDIR};
    // Where that is not possible it is only slower.
    Descriptor direct(mode == OpenMode::kReadDirect && S_ISREG(info.st_mode)
                          ? ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC)
                          : -1);
    into = mode == OpenMode::kReadDirect
               ? std::make_unique<ReadOnceFile>(path, descriptor.get(), direct.get())
               : std::make_unique<PosixFile>(path, descriptor.get());
    descriptor.release();
    direct.release();
    return {};
  }
  Outcome raw_rename(const std::string& from, const std::string& to) override {
    return outcome_of(::rename(from.c_str(), to.c_str()));
  }
  Outcome raw_remove(const std::string& path) override {
    return outcome_of(::remove(path.c_str()));
  }
  Outcome raw_make_directory(const std::string& path) override {
    return outcome_of(::mkdir(path.c_str(), 0777));
  }
  Outcome raw_make_private_directory(const std::string& path) override {
    return outcome_of(::mkdir(path.c_str(), 0700));
  }
  Outcome raw_list(const std::string& path, std::vector<std::string>& into) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
    if (folder == nullptr) return {0, errno};
    errno = 0;
    while (const dirent* entry = ::readdir(folder.get())) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") into.push_back(name);
      errno = 0;
    }
    return {0, errno};
  }
  Outcome raw_status(const std::string& path, bool follow_link, FileStatus& into) override {
    struct stat info = {};
    into = {};
    if ((follow_link ? ::stat(path.c_str(), &info) : ::lstat(path.c_str(), &info)) != 0)
      return {0, errno == ENOENT || errno == ENOTDIR ? 0 : errno};
    into.kind = kind_of(info.st_mode);
    into.bytes = info.st_size;
    into.modified_nanoseconds =
        info.st_mtim.tv_sec * std::int64_t{1000000000} + info.st_mtim.tv_nsec;
    return {};
  }
  Outcome raw_sync_directory(const std::string& path) override {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return {0, errno};
    const Outcome outcome = outcome_of(::fsync(descriptor));
    ::close(descriptor);
    // Some network file systems cannot sync a folder and say so with EINVAL.
    return outcome.error == EINVAL ? Outcome{} : outcome;
  }
  Outcome raw_free_space(const std::string& path) override {
    struct statvfs info = {};
    if (::statvfs(path.c_str(), &info) != 0) return {0, errno};
    return {static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize), 0};
  }
  std::uint64_t raw_random() override {
    std::uint64_t bits = 0;
    // Without kernel randomness (old containers) the process id still tells writers apart.
    if (::getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits))
      bits = static_cast<std::uint64_t>(::getpid());
    return bits;
  }

 private:
  // A file that cannot be opened a second time is not left behind.
  static Outcome finish_direct(const std::string& path, Descriptor& descriptor,
                               std::unique_ptr<File>& into) {
    Descriptor direct(::open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
    const int error = direct.get() < 0 ? errno : 0;
    auto file = std::make_unique<DirectFile>(path, descriptor.get(), direct.get());
    descriptor.release();
    direct.release();
    if (error != 0 && error != EINVAL) {
      ::unlink(path.c_str());
      return {0, error};
    }
    into = std::move(file);
    return {};
  }
};

}  // namespace

std::unique_ptr<Files> real_files() { return std::make_unique<PosixFiles>(); }

}  // namespace trireme
