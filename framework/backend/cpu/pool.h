// A rank's memory on the CPU: free blocks are kept, so that the activations of every step reuse
// warm pages instead of mapping new ones. A request takes the smallest kept block that is at most a
// quarter larger; when too much is kept, the block that has lain longest goes first.
//
// Blocks are 64-byte aligned; those of 2 MiB and more are aligned to 2 MiB, ask for huge pages as
// far as the request fills them, and go back to the system when they are given up.
// What is kept is bounded: blocks in use plus blocks kept never exceed the most that was in use by
// more than an eighth plus 32 MiB: blocks of other sizes are needed in between, and new pages cost
// more than a product of their size. Thread-safe, because the last reference to a tensor may die on
// a peer's thread. Counts nothing in a ledger: the backend does, in requested bytes.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace trireme {

class Pool {
 public:
  Pool() = default;
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Null when the machine has no more memory.
  void* take(std::int64_t bytes);
  void give(void* block) noexcept;  // one that was taken

  std::int64_t kept_bytes() const;  // free blocks held back

  // The size of a new block for a request: at most an eighth, or a huge page, more than asked for.
  static std::int64_t rounded(std::int64_t bytes);

 private:
  struct Block {
    void* data;
    std::int64_t size;
  };
  void shrink_to(std::int64_t kept) noexcept;
  std::int64_t keepable() const;

  mutable std::mutex mutex_;
  std::vector<Block> free_;  // longest free first
  std::unordered_map<void*, std::int64_t> taken_;
  std::int64_t kept_ = 0, used_ = 0, most_used_ = 0;
};

}  // namespace trireme
