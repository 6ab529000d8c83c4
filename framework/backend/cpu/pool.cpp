#include "framework/backend/cpu/pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace trireme {

namespace {

constexpr std::int64_t kHuge = std::int64_t{2} << 20;

void* fresh_block(std::int64_t size) {
  const bool huge = size >= kHuge;
  void* block = std::aligned_alloc(static_cast<std::size_t>(huge ? kHuge : 64),
                                   static_cast<std::size_t>(size));
  if (block && huge) madvise(block, static_cast<std::size_t>(size), MADV_HUGEPAGE);
  return block;
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
    std::free(free_[gone].data);
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
    block = fresh_block(size);
    if (!block) {
      shrink_to(0);
      block = fresh_block(size);
    }
    if (!block) return nullptr;
  }
  taken_[block] = size;
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
    std::free(block);
  }
  shrink_to(keepable());
}

std::int64_t Pool::kept_bytes() const {
  std::scoped_lock lock(mutex_);
  return kept_;
}

}  // namespace trireme
