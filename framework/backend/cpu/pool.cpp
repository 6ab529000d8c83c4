#include "framework/backend/cpu/pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdlib>

namespace trireme {

namespace {

constexpr std::int64_t kHuge = std::int64_t{2} << 20;

// Blocks of huge pages are mapped one by one: what is freed goes back to the system at once, while
// malloc would keep it for blocks of other sizes. Null without memory.
void* map_block(std::int64_t size) {
  const auto bytes = static_cast<std::size_t>(size);
  constexpr auto kAlign = static_cast<std::size_t>(kHuge);
  void* const all = mmap(nullptr, bytes + kAlign, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(all);
  const std::size_t before = (kAlign - reinterpret_cast<std::uintptr_t>(all) % kAlign) % kAlign;
  if (before > 0) munmap(first, before);
  if (before < kAlign) munmap(first + before + bytes, kAlign - before);
  return first + before;
}

// The last part of a block, behind what was asked for, gets small pages as they are touched.
void* fresh_block(std::int64_t size, std::int64_t wanted) {
  if (size < kHuge) return std::aligned_alloc(64, static_cast<std::size_t>(size));
  void* const block = map_block(size);
  const std::int64_t whole = wanted / kHuge * kHuge;
  if (block && whole > 0) madvise(block, static_cast<std::size_t>(whole), MADV_HUGEPAGE);
  if (block && whole < size)
    madvise(static_cast<std::byte*>(block) + whole, static_cast<std::size_t>(size - whole),
            MADV_NOHUGEPAGE);
  return block;
}

void free_block(void* block, std::int64_t size) {
  size < kHuge ? std::free(block)
               : static_cast<void>(munmap(block, static_cast<std::size_t>(size)));
}

}  // namespace

Pool::~Pool() { shrink_to(0); }

std::int64_t Pool::rounded(std::int64_t bytes) {
  const auto wanted = static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 1));
  const auto power = static_cast<std::int64_t>(std::bit_floor(wanted));
  std::int64_t step = std::max<std::int64_t>(64, power / 8);
  if (bytes >= kHuge) step = std::max(step, kHuge);
  return (std::max<std::int64_t>(bytes, 1) + step - 1) / step * step;
}

void Pool::shrink_to(std::int64_t kept) noexcept {
  std::size_t gone = 0;
  for (; kept_ > kept && gone < free_.size(); ++gone) {
    free_block(free_[gone].data, free_[gone].size);
    kept_ -= free_[gone].size;
  }
  free_.erase(free_.begin(), free_.begin() + static_cast<std::ptrdiff_t>(gone));
}

std::int64_t Pool::keepable() const {
  return std::max<std::int64_t>(0, most_used_ + most_used_ / 8 + (32 << 20) - used_);
}

void* Pool::take(std::int64_t bytes) {
  std::int64_t size = rounded(bytes);
  std::scoped_lock lock(mutex_);
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it)  // among equals the warmest
    if (it->size >= size && it->size <= size + size / 4 &&
        (best == free_.end() || it->size <= best->size))
      best = it;
  void* block = nullptr;
  if (best != free_.end()) {
    block = best->data;
    size = best->size;
    kept_ -= size;
    free_.erase(best);
  } else {
    used_ += size;  // room for it
    shrink_to(keepable());
    used_ -= size;
    block = fresh_block(size, bytes);
    if (!block) {
      shrink_to(0);
      block = fresh_block(size, bytes);
    }
    if (!block) return nullptr;
  }
  try {
    taken_[block] = size;
  } catch (...) {  // no memory for the entry
    free_block(block, size);
    throw;
  }
  used_ += size;
  most_used_ = std::max(most_used_, used_);
  return block;
}

void Pool::give(void* block) noexcept {
  std::scoped_lock lock(mutex_);
  const auto it = taken_.find(block);
  const std::int64_t size = it->second;
  taken_.erase(it);
  used_ -= size;
  try {
    free_.push_back({block, size});
    kept_ += size;
  } catch (...) {  // no memory for the list entry
    free_block(block, size);
  }
  shrink_to(keepable());
}

std::int64_t Pool::kept_bytes() const {
  std::scoped_lock lock(mutex_);
  return kept_;
}

}  // namespace trireme
