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
  while (kept_ > kept && !free_.empty()) {
    const auto largest = std::prev(free_.end());
    std::free(largest->second.back());
    largest->second.pop_back();
    kept_ -= largest->first;
    if (largest->second.empty()) free_.erase(largest);
  }
}

void* Pool::take(std::int64_t bytes) {
  const std::int64_t size = rounded(bytes);
  std::scoped_lock lock(mutex_);
  used_ += size;
  most_used_ = std::max(most_used_, used_);
  if (const auto found = free_.find(size); found != free_.end()) {
    void* block = found->second.back();
    found->second.pop_back();
    if (found->second.empty()) free_.erase(found);
    kept_ -= size;
    return block;
  }
  shrink_to(std::max<std::int64_t>(0, most_used_ + most_used_ / 8 + (32 << 20) - used_));
  void* block = fresh_block(size);
  if (!block) {
    shrink_to(0);
    block = fresh_block(size);
  }
  if (!block) used_ -= size;
  return block;
}

void Pool::give(void* block, std::int64_t bytes) noexcept {
  const std::int64_t size = rounded(bytes);
  std::scoped_lock lock(mutex_);
  used_ -= size;
  try {
    free_[size].push_back(block);
    kept_ += size;
  } catch (...) {  // no memory for the list entry
    std::free(block);
  }
  shrink_to(std::max<std::int64_t>(0, most_used_ + most_used_ / 8 + (32 << 20) - used_));
}

std::int64_t Pool::kept_bytes() const {
  std::scoped_lock lock(mutex_);
  return kept_;
}

}  // namespace trireme
