#include "tests/support/simulated_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace trireme::testing {

namespace {

constexpr std::int64_t kNanosecondsPerCall = 1000000;

// Is `target` the folder itself or somewhere inside?
bool holds(const DiskNodePtr& folder, const DiskNodePtr& target) {
  if (folder == target) return true;
  return std::any_of(folder->names.begin(), folder->names.end(),
                     [&](const auto& entry) { return holds(entry.second, target); });
}

int missing(const SimulatedDisk::Place& at) { return at.through_file ? ENOTDIR : ENOENT; }

}  // namespace

class SimulatedFile final : public File {
 public:
  SimulatedFile(std::string path, SimulatedFiles& owner, DiskNodePtr node, OpenMode mode)
      : File(std::move(path)), owner_(owner), node_(std::move(node)), mode_(mode) {}
  ~SimulatedFile() override {
    const std::lock_guard lock(owner_.mutex_);
    if (open_) --owner_.open_now_;
  }

  bool direct() const override { return mode_ == OpenMode::kScratch; }
  Outcome raw_read(void* into, std::int64_t bytes, std::int64_t offset) override;
  Outcome raw_write(const void* from, std::int64_t bytes, std::int64_t offset) override {
    return put("write", from, bytes, offset);
  }
  Outcome raw_append(const void* from, std::int64_t bytes) override {
    return put("append", from, bytes, -1);
  }
  Outcome raw_size() override;
  Outcome raw_truncate(std::int64_t bytes) override;
  Outcome raw_sync() override;
  Outcome raw_preallocate(std::int64_t bytes) override;
  Outcome raw_map(std::int64_t offset, std::int64_t bytes, std::unique_ptr<Mapping>& into) override;
  Outcome raw_close() override;

 private:
  int enter(const char* what, std::int64_t* bytes = nullptr) {
    if (const int error = owner_.enter(what, path(), bytes)) return error;
    if (owner_.matches(owner_.troubles_.broken, path())) return EIO;
    return open_ ? 0 : EBADF;
  }
  bool writable() const { return mode_ != OpenMode::kRead && mode_ != OpenMode::kReadDirect; }
  // offset < 0: at the end, where a file opened for appending always writes.
  Outcome put(const char* what, const void* from, std::int64_t bytes, std::int64_t offset);

  SimulatedFiles& owner_;
  DiskNodePtr node_;
  OpenMode mode_;
  bool open_ = true;
};

Outcome SimulatedFile::raw_read(void* into, std::int64_t bytes, std::int64_t offset) {
  const std::lock_guard lock(owner_.mutex_);
  if (const int error = enter("read", &bytes)) return {0, error};
  if (mode_ == OpenMode::kAppend) return {0, EBADF};
  const auto size = static_cast<std::int64_t>(node_->content.size());
  const std::int64_t count = std::clamp<std::int64_t>(size - offset, 0, bytes);
  if (count > 0) std::memcpy(into, node_->content.data() + offset, static_cast<std::size_t>(count));
  return {count, 0};
}

Outcome SimulatedFile::put(const char* what, const void* from, std::int64_t bytes,
                           std::int64_t offset) {
  const std::lock_guard lock(owner_.mutex_);
  if (const int error = enter(what, &bytes)) return {0, error};
  if (!writable()) return {0, EBADF};
  if (offset < 0 || mode_ == OpenMode::kAppend)
    offset = static_cast<std::int64_t>(node_->content.size());
  return owner_.put(node_, from, bytes, offset);
}

Outcome SimulatedFile::raw_size() {
  const std::lock_guard lock(owner_.mutex_);
  if (const int error = enter("size of")) return {0, error};
  return {static_cast<std::int64_t>(node_->content.size()), 0};
}

Outcome SimulatedFile::raw_truncate(std::int64_t bytes) {
  const std::lock_guard lock(owner_.mutex_);
  if (const int error = enter("truncate")) return {0, error};
  if (!writable() || bytes < 0) return {0, EINVAL};
  owner_.disk_.resize(node_, bytes);
  return {};
}

Outcome SimulatedFile::raw_sync() {
  const std::lock_guard lock(owner_.mutex_);
  const int error = enter("sync");
  if (error != 0 && error != EINTR) owner_.disk_.drop_unsynced(node_);
  if (error == 0 && !owner_.matches(owner_.troubles_.ignores_sync, path()))
    owner_.disk_.sync(node_);
  return {0, error};
}

Outcome SimulatedFile::raw_preallocate(std::int64_t bytes) {
  const std::lock_guard lock(owner_.mutex_);
  if (const int error = enter("reserve")) return {0, error};
  if (!writable()) return {0, EBADF};
  return owner_.reserve(node_, bytes);
}

Outcome SimulatedFile::raw_map(std::int64_t offset, std::int64_t bytes,
                               std::unique_ptr<Mapping>& into) {
  const std::lock_guard lock(owner_.mutex_);
  if (const int error = enter("map")) return {0, error};
  if (mode_ == OpenMode::kAppend) return {0, EACCES};
  auto copy = std::make_shared<std::string>(
      node_->content.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes)));
  const auto* data = reinterpret_cast<const std::byte*>(copy->data());
  into = std::make_unique<Mapping>(data, bytes, [copy] {});
  return {bytes, 0};
}

// Whatever a close answers, the file is closed.
Outcome SimulatedFile::raw_close() {
  const std::lock_guard lock(owner_.mutex_);
  if (!open_) return {};
  const int error = owner_.enter("close", path());
  open_ = false;
  --owner_.open_now_;
  return {0, error};
}

SimulatedFiles::SimulatedFiles(Troubles troubles) : troubles_(std::move(troubles)) {}

SimulatedFiles::SimulatedFiles(SimulatedDisk disk, std::uint64_t seed)
    : disk_(std::move(disk)), random_(seed) {}

void SimulatedFiles::trouble(Troubles troubles) {
  const std::lock_guard lock(mutex_);
  troubles_ = std::move(troubles);
  trace_.clear();
  fired_ = 0;
}

std::int64_t SimulatedFiles::calls() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(trace_.size());
}

std::int64_t SimulatedFiles::fired() const {
  const std::lock_guard lock(mutex_);
  return fired_;
}

bool SimulatedFiles::crashed() const {
  const std::lock_guard lock(mutex_);
  return crashed_;
}

std::vector<std::string> SimulatedFiles::trace() const {
  const std::lock_guard lock(mutex_);
  return trace_;
}

void SimulatedFiles::sync_all() {
  const std::lock_guard lock(mutex_);
  disk_.sync_all();
}

std::int64_t SimulatedFiles::used() const {
  const std::lock_guard lock(mutex_);
  return disk_.used();
}

std::int64_t SimulatedFiles::open_now() const {
  const std::lock_guard lock(mutex_);
  return open_now_;
}

bool SimulatedFiles::owner_only(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const auto at = disk_.find(path);
  return at.node != nullptr && at.node->owner_only;
}

std::unique_ptr<SimulatedFiles> SimulatedFiles::restart(const Persistence& kept,
                                                        std::uint64_t seed) const {
  const std::lock_guard lock(mutex_);
  std::mt19937_64 dice(random_);  // names drawn after the restart differ from those before
  std::unique_ptr<SimulatedFiles> after(
      new SimulatedFiles(disk_.after_power_cut(kept, seed), dice() + 1));
  after->clock_ = clock_;
  return after;
}

int SimulatedFiles::enter(const std::string& what, const std::string& path, std::int64_t* bytes) {
  if (crashed_ && troubles_.plan.fault == Fault::kPowerOff) return EIO;
  if (crashed_) throw SimulatedCrash{};
  trace_.push_back(what + " " + path);
  clock_ += kNanosecondsPerCall;
  const FaultPlan& plan = troubles_.plan;
  const auto call = static_cast<std::int64_t>(trace_.size());
  const bool due = plan.at > 0 && (call == plan.at || (call > plan.at && plan.sticky));
  if (!due) return troubles_.stutter ? stutter(bytes) : 0;
  const bool short_count = plan.fault == Fault::kOneByte || plan.fault == Fault::kHalf;
  if (short_count && (bytes == nullptr || *bytes < 2)) return 0;  // nothing to shorten
  ++fired_;
  switch (plan.fault) {
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
      crashed_ = true;
      return EIO;
    case Fault::kCrash:
      crashed_ = true;
      throw SimulatedCrash{};
  }
  return 0;
}

int SimulatedFiles::stutter(std::int64_t* bytes) {
  if (bytes == nullptr) return 0;
  ++fired_;
  switch (transfers_++ % 4) {
    case 1:
      *bytes = std::min<std::int64_t>(*bytes, 1);
      return 0;
    case 3:
      *bytes = (*bytes + 1) / 2;
      return 0;
    default:
      return EINTR;
  }
}

bool SimulatedFiles::matches(const std::function<bool(const std::string&)>& which,
                             const std::string& path) const {
  return which && which(path);
}

Outcome SimulatedFiles::put(const DiskNodePtr& file, const void* from, std::int64_t bytes,
                            std::int64_t offset) {
  const std::int64_t more = offset + bytes - file->room;
  if (more > 0) {
    const std::int64_t left = std::max<std::int64_t>(troubles_.capacity - disk_.used(), 0);
    if (more > left) bytes -= more - left;
    if (bytes <= 0) return {0, ENOSPC};
  }
  if (bytes == 0) return {};
  disk_.write(file, offset, {static_cast<const char*>(from), static_cast<std::size_t>(bytes)});
  file->modified = clock_;
  return {bytes, 0};
}

Outcome SimulatedFiles::reserve(const DiskNodePtr& file, std::int64_t bytes) {
  if (bytes > file->room) {
    if (bytes - file->room > troubles_.capacity - disk_.used()) return {0, ENOSPC};
    file->room = bytes;
  }
  if (bytes > static_cast<std::int64_t>(file->content.size())) disk_.resize(file, bytes);
  return {};
}

Outcome SimulatedFiles::raw_open(const std::string& path, OpenMode mode,
                                 std::unique_ptr<File>& into) {
  const std::lock_guard lock(mutex_);
  const bool fresh =
      mode == OpenMode::kCreate || mode == OpenMode::kScratch || mode == OpenMode::kCreateDirect;
  if (const int error = enter(fresh ? "create" : "open", path)) return {0, error};
  if (matches(troubles_.broken, path)) return {0, EIO};
  auto at = disk_.find(path);
  if (at.parent == nullptr && at.node == nullptr) return {0, missing(at)};
  if (fresh && at.node != nullptr) return {0, EEXIST};
  if (at.node != nullptr && at.node->folder) return {0, EISDIR};
  if (at.node == nullptr && (mode == OpenMode::kRead || mode == OpenMode::kReadDirect))
    return {0, ENOENT};
  if (open_now_ >= troubles_.open_files) return {0, EMFILE};
  if (at.node == nullptr) {
    at.node = std::make_shared<DiskNode>();
    at.node->owner_only = mode == OpenMode::kScratch;
    at.node->modified = clock_;
    disk_.add(at, at.node);
  }
  ++open_now_;
  into = std::make_unique<SimulatedFile>(path, *this, at.node, mode);
  return {};
}

Outcome SimulatedFiles::raw_rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  if (const int error = enter("rename", from + " -> " + to)) return {0, error};
  const auto source = disk_.find(from);
  const auto target = disk_.find(to);
  if (source.node == nullptr) return {0, missing(source)};
  if (target.parent == nullptr) return {0, target.node != nullptr ? EBUSY : missing(target)};
  if (source.parent == nullptr) return {0, EBUSY};
  if (source.node == target.node) return {};
  if (source.node->folder && holds(source.node, target.parent)) return {0, EINVAL};
  if (target.node != nullptr) {
    if (source.node->folder && !target.node->folder) return {0, ENOTDIR};
    if (!source.node->folder && target.node->folder) return {0, EISDIR};
    if (!target.node->names.empty()) return {0, ENOTEMPTY};
  }
  disk_.rename(source, target);
  return {};
}

Outcome SimulatedFiles::raw_remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (const int error = enter("remove", path)) return {0, error};
  const auto at = disk_.find(path);
  if (at.node == nullptr) return {0, missing(at)};
  if (at.parent == nullptr) return {0, EBUSY};
  if (!at.node->names.empty()) return {0, ENOTEMPTY};
  disk_.remove(at);
  return {};
}

Outcome SimulatedFiles::make_directory(const std::string& path, bool owner_only) {
  const std::lock_guard lock(mutex_);
  if (const int error = enter("make directory", path)) return {0, error};
  const auto at = disk_.find(path);
  if (at.node != nullptr) return {0, EEXIST};
  if (at.parent == nullptr) return {0, missing(at)};
  auto folder = std::make_shared<DiskNode>();
  folder->folder = true;
  folder->owner_only = owner_only;
  folder->modified = clock_;
  disk_.add(at, folder);
  return {};
}

Outcome SimulatedFiles::raw_make_directory(const std::string& path) {
  return make_directory(path, false);
}

Outcome SimulatedFiles::raw_make_private_directory(const std::string& path) {
  return make_directory(path, true);
}

Outcome SimulatedFiles::raw_list(const std::string& path, std::vector<std::string>& into) {
  const std::lock_guard lock(mutex_);
  if (const int error = enter("list", path)) return {0, error};
  const auto at = disk_.find(path);
  if (at.node == nullptr) return {0, missing(at)};
  if (!at.node->folder) return {0, ENOTDIR};
  for (const auto& [name, node] : at.node->names) into.push_back(name);
  return {};
}

Outcome SimulatedFiles::raw_status(const std::string& path, bool, FileStatus& into) {
  const std::lock_guard lock(mutex_);
  into = {};
  if (const int error = enter("look at", path)) return {0, error};
  const auto at = disk_.find(path);
  if (at.node == nullptr) return {};
  into.kind = at.node->folder ? FileKind::kDirectory : FileKind::kFile;
  into.bytes = static_cast<std::int64_t>(at.node->content.size());
  into.modified_nanoseconds = at.node->modified;
  return {};
}

Outcome SimulatedFiles::raw_sync_directory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (const int error = enter("sync directory", path)) return {0, error};
  const auto at = disk_.find(path);
  if (at.node == nullptr) return {0, missing(at)};
  if (!at.node->folder) return {0, ENOTDIR};
  if (!matches(troubles_.ignores_sync, path)) disk_.sync(at.node);
  return {};
}

Outcome SimulatedFiles::raw_free_space(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (const int error = enter("free space at", path)) return {0, error};
  const auto at = disk_.find(path);
  if (at.node == nullptr) return {0, missing(at)};
  return {std::max<std::int64_t>(troubles_.capacity - disk_.used(), 0), 0};
}

std::uint64_t SimulatedFiles::raw_random() {
  const std::lock_guard lock(mutex_);
  return random_();
}

}  // namespace trireme::testing
