#include "framework/checkpoint/write_behind.h"

#include <new>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/storage/content_hash.h"

namespace trireme {

namespace {

constexpr std::int64_t kPage = 4096;
constexpr std::int64_t kMostLate = std::int64_t{1} << 20;

}  // namespace

void WriteBehind::Free::operator()(std::byte* block) const {
  ::operator delete (block, std::align_val_t{kPage});
}

WriteBehind::WriteBehind(File& file, std::int64_t block_bytes) : file_(file) {
  for (int i = 0; i < kBlocks; ++i) {
    const auto bytes = static_cast<std::size_t>(block_bytes);
    blocks_.emplace_back(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kPage})));
    free_.push_back(blocks_.back().get());
  }
  try {
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::exception& error) {  // one is enough
    const std::string reason = reason_of(error);
    if (threads_.empty()) fail("write ", file_.path(), ": no thread can be started: ", reason);
  }
}

WriteBehind::~WriteBehind() { stop(); }

void WriteBehind::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    jobs_.clear();
  }
  wanted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::byte* WriteBehind::take() {
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [this] { return !free_.empty() || failure_; });
  if (failure_) std::rethrow_exception(failure_);
  std::byte* block = free_.back();
  free_.pop_back();
  return block;
}

void WriteBehind::give_back(std::byte* block) {
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(block);
  }
  freed_.notify_all();
}

void WriteBehind::write(std::int64_t bytes, std::int64_t offset, const Fill& fill,
                        Written written) {
  std::byte* block = take();
  try {
    fill(block);
  } catch (...) {
    give_back(block);
    throw;
  }
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back({block, bytes, offset, std::move(written)});
  }
  wanted_.notify_one();
}

void WriteBehind::write_late(const void* from, std::int64_t bytes, std::int64_t offset) {
  const auto* first = static_cast<const std::byte*>(from);
  bool many = false;
  {
    const std::lock_guard lock(mutex_);
    late_bytes_.insert(late_bytes_.end(), first, first + bytes);
    late_.push_back({bytes, offset});
    many = std::ssize(late_bytes_) >= kMostLate;
  }
  if (many) write_what_is_late();
}

void WriteBehind::write_what_is_late() {
  std::vector<Late> late;
  std::vector<std::byte> bytes;
  {
    const std::lock_guard lock(mutex_);
    late.swap(late_);
    bytes.swap(late_bytes_);
  }
  const std::byte* from = bytes.data();
  for (const Late& one : late) {
    file_.write(from, one.bytes, one.offset);
    from += one.bytes;
  }
}

void WriteBehind::drain() {
  {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [this] { return free_.size() == blocks_.size() || failure_; });
    if (failure_) std::rethrow_exception(failure_);
  }
  write_what_is_late();
}

// What is left behind whole pages is late.
void WriteBehind::write_pages(const Job& job) {
  const std::int64_t whole = job.bytes / kPage * kPage;
  if (whole > 0) file_.write(job.block, whole, job.offset);
  if (whole < job.bytes) write_late(job.block + whole, job.bytes - whole, job.offset + whole);
}

void WriteBehind::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    std::exception_ptr failure;
    try {
      const std::uint64_t hash = block_hash(job.block, job.bytes);
      write_pages(job);
      job.written(hash);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    free_.push_back(job.block);
    if (failure && !failure_) failure_ = failure;
    freed_.notify_all();
  }
}

}  // namespace trireme
