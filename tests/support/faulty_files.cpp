#include "tests/support/faulty_files.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace trireme::testing {

namespace {

class FaultyFile final : public File {
 public:
  FaultyFile(FaultyFiles& owner, std::unique_ptr<File> inner)
      : File(inner->path()), owner_(owner), inner_(std::move(inner)) {}

  bool direct() const override { return inner_->direct(); }
  Outcome raw_read(void* into, std::int64_t bytes, std::int64_t offset) override {
    if (const int error = owner_.trip(&bytes)) return {0, error};
    return inner_->raw_read(into, bytes, offset);
  }
  Outcome raw_write(const void* from, std::int64_t bytes, std::int64_t offset) override {
    if (const int error = owner_.trip(&bytes)) return {0, error};
    owner_.wrote(path());
    return inner_->raw_write(from, bytes, offset);
  }
  Outcome raw_append(const void* from, std::int64_t bytes) override {
    if (const int error = owner_.trip(&bytes)) return {0, error};
    owner_.wrote(path());
    return inner_->raw_append(from, bytes);
  }
  Outcome raw_size() override {
    if (const int error = owner_.trip()) return {0, error};
    return inner_->raw_size();
  }
  Outcome raw_truncate(std::int64_t bytes) override {
    if (const int error = owner_.trip()) return {0, error};
    owner_.wrote(path());
    return inner_->raw_truncate(bytes);
  }
  Outcome raw_sync() override {
    if (const int error = owner_.trip()) return {0, error};
    const Outcome outcome = inner_->raw_sync();
    if (outcome.error == 0) owner_.synced(path(), inner_->raw_size().count);
    return outcome;
  }
  Outcome raw_preallocate(std::int64_t bytes) override {
    if (const int error = owner_.trip()) return {0, error};
    owner_.wrote(path());
    return inner_->raw_preallocate(bytes);
  }
  Outcome raw_map(std::int64_t offset, std::int64_t bytes,
                  std::unique_ptr<Mapping>& into) override {
    if (const int error = owner_.trip()) return {0, error};
    return inner_->raw_map(offset, bytes, into);
  }
  Outcome raw_close() override {
    if (const int error = owner_.trip()) return {0, error};
    return inner_->raw_close();
  }

 private:
  FaultyFiles& owner_;
  std::unique_ptr<File> inner_;
};

}  // namespace

int FaultyFiles::trip(std::int64_t* bytes) {
  const std::lock_guard lock(mutex_);
  ++calls_;
  const bool due =
      plan_.at > 0 &&
      (calls_ == plan_.at || (calls_ > plan_.at && (plan_.sticky || plan_.fault == Fault::kCrash ||
                                                    plan_.fault == Fault::kPowerOff)));
  if (!due) return 0;
  const bool short_count = plan_.fault == Fault::kOneByte || plan_.fault == Fault::kHalf;
  if (short_count && (bytes == nullptr || *bytes < 2)) return 0;  // nothing to shorten
  ++fired_;
  switch (plan_.fault) {
    case Fault::kIoError:
      return EIO;
    case Fault::kDiskFull:
      return ENOSPC;
    case Fault::kInterrupted:
      return EINTR;
    case Fault::kOneByte:
      *bytes = 1;
      return 0;
    case Fault::kHalf:
      *bytes /= 2;
      return 0;
    case Fault::kPowerOff:
      return EIO;
    case Fault::kCrash:
      throw SimulatedCrash{};
  }
  return 0;
}

void FaultyFiles::opened(const std::string& path, std::int64_t size) {
  const std::lock_guard lock(mutex_);
  durable_.try_emplace(path, Durable{size, false});
}

void FaultyFiles::wrote(const std::string& path) {
  const std::lock_guard lock(mutex_);
  durable_[path].dirty = true;
}

void FaultyFiles::synced(const std::string& path, std::int64_t size) {
  const std::lock_guard lock(mutex_);
  durable_[path] = {size, false};
}

void FaultyFiles::lose_unsynced() {
  for (const auto& [path, state] : durable_)
    if (state.dirty && std::filesystem::exists(path))
      std::filesystem::resize_file(path, static_cast<std::uintmax_t>(state.bytes));
}

Outcome FaultyFiles::raw_open(const std::string& path, OpenMode mode, std::unique_ptr<File>& into) {
  if (const int error = trip()) return {0, error};
  std::unique_ptr<File> inner;
  const Outcome outcome = inner_->raw_open(path, mode, inner);
  if (outcome.error != 0) return outcome;
  opened(path, inner->raw_size().count);
  into = std::make_unique<FaultyFile>(*this, std::move(inner));
  return outcome;
}

Outcome FaultyFiles::raw_rename(const std::string& from, const std::string& to) {
  if (const int error = trip()) return {0, error};
  const Outcome outcome = inner_->raw_rename(from, to);
  const std::lock_guard lock(mutex_);
  const auto entry = durable_.find(from);
  if (outcome.error == 0 && entry != durable_.end()) {
    durable_[to] = entry->second;
    durable_.erase(from);
  }
  return outcome;
}

Outcome FaultyFiles::raw_remove(const std::string& path) {
  if (const int error = trip()) return {0, error};
  const std::lock_guard lock(mutex_);
  durable_.erase(path);
  return inner_->raw_remove(path);
}

Outcome FaultyFiles::raw_make_directory(const std::string& path) {
  if (const int error = trip()) return {0, error};
  return inner_->raw_make_directory(path);
}

Outcome FaultyFiles::raw_make_private_directory(const std::string& path) {
  if (const int error = trip()) return {0, error};
  return inner_->raw_make_private_directory(path);
}

Outcome FaultyFiles::raw_list(const std::string& path, std::vector<std::string>& into) {
  if (const int error = trip()) return {0, error};
  return inner_->raw_list(path, into);
}

Outcome FaultyFiles::raw_status(const std::string& path, bool follow_link, FileStatus& into) {
  if (const int error = trip()) return {0, error};
  return inner_->raw_status(path, follow_link, into);
}

Outcome FaultyFiles::raw_sync_directory(const std::string& path) {
  if (const int error = trip()) return {0, error};
  return inner_->raw_sync_directory(path);
}

Outcome FaultyFiles::raw_free_space(const std::string& path) {
  if (const int error = trip()) return {0, error};
  return inner_->raw_free_space(path);
}

TemporaryFolder::TemporaryFolder() {
  const auto files = real_files();
  // In memory where that exists: thousands of fsyncs would otherwise wait for the disk.
  constexpr std::int64_t kRoom = std::int64_t{64} << 20;
  const std::string memory = "/dev/shm";
  const bool roomy = files->exists(memory) && ::access(memory.c_str(), W_OK) == 0 &&
                     files->free_space(memory) > kRoom;
  const std::string base = roomy ? memory : std::filesystem::temp_directory_path().string();
  path_ = files->temporary_name(path_join(base, "trireme-test"));
  files->make_directories(path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace trireme::testing
