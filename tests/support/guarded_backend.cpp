#include "tests/support/guarded_backend.h"

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <mutex>

#include "framework/backend/host_memory.h"
#include "framework/base/error.h"

namespace trireme::test {

namespace {

// The range of pages. Blocks are carved from it first fit; one mprotect opens or closes all of
// them.
class Arena {
 public:
  Arena()
      : base_(
            mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    check(base_ != MAP_FAILED, "guarded backend: no address space for ", kBytes, " bytes");
  }

  void open() {
    std::scoped_lock lock(mutex_);
    if (depth_++ == 0) protect(PROT_READ | PROT_WRITE);
  }
  void close() {
    std::scoped_lock lock(mutex_);
    if (--depth_ == 0) protect(PROT_NONE);
  }

  void* take(std::size_t bytes) {
    std::scoped_lock lock(mutex_);
    std::size_t begin = 0;
    for (const auto& [block_begin, block_end] : blocks_) {
      if (block_begin >= begin + bytes) break;
      begin = block_end;
    }
    const std::size_t end = (begin + bytes + kAlignment - 1) / kAlignment * kAlignment;
    check(end <= kBytes, "guarded backend: ", bytes, " bytes do not fit the range of ", kBytes);
    blocks_[begin] = end;
    return static_cast<std::byte*>(base_) + begin;
  }
  void give_back(void* block) {
    std::scoped_lock lock(mutex_);
    blocks_.erase(
        static_cast<std::size_t>(static_cast<std::byte*>(block) - static_cast<std::byte*>(base_)));
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{1} << 32;

  // Called in destructors, where it must not throw; a page that stays closed crashes the next
  // access anyway.
  void protect(int rights) { mprotect(base_, kBytes, rights); }

  std::mutex mutex_;
  void* base_;
  int depth_ = 0;
  std::map<std::size_t, std::size_t> blocks_;  // begin -> end
};

// Access rights belong to the process, and so does the range: the one exception to "no globals".
// Never destroyed, since a tensor may outlive everything else.
Arena& arena() {
  static Arena* const only = new Arena();
  return *only;
}

}  // namespace

void GuardedBackend::begin_access() { arena().open(); }
void GuardedBackend::end_access() { arena().close(); }

std::shared_ptr<Storage> GuardedBackend::do_allocate(std::int64_t bytes, MemoryKind kind) {
  std::shared_ptr<MemoryLedger> counted = shared_ledger();
  counted->add(Tier::kDevice, kind, bytes);
  void* data = arena().take(static_cast<std::size_t>(bytes));
  arena().open();
  std::memset(data, 0xff, static_cast<std::size_t>(bytes));  // NaN in every floating type
  arena().close();
  return std::make_shared<Storage>(data, bytes, [data, bytes, kind, counted] {
    arena().give_back(data);
    counted->remove(Tier::kDevice, kind, bytes);
  });
}

std::unique_ptr<Backend> make_guarded_backend(std::shared_ptr<MemoryLedger> ledger) {
  return std::make_unique<GuardedBackend>(std::move(ledger));
}

}  // namespace trireme::test
