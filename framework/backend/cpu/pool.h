// A rank's memory on the CPU: free blocks are kept by rounded size, so that the activations of
// every step reuse warm pages instead of mapping new ones.
//
// Blocks are 64-byte aligned; those of 2 MiB and more are aligned to 2 MiB and ask for huge pages.
// What is kept is bounded: blocks in use plus blocks kept never exceed the most that was in use by
// more than an eighth plus 32 MiB. Thread-safe, because the last reference to a tensor may die on a
// peer's thread. Counts nothing in a ledger: the backend does, in requested bytes.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
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
  void give(void* block, std::int64_t bytes) noexcept;  // the same `bytes` as taken

  std::int64_t kept_bytes() const;  // free blocks held back

  // The size that a request occupies: at most an eighth more than asked for.
  static std::int64_t rounded(std::int64_t bytes);

 private:
  void shrink_to(std::int64_t kept) noexcept;

  mutable std::mutex mutex_;
  std::map<std::int64_t, std::vector<void*>> free_;  // by rounded size
  std::int64_t kept_ = 0, used_ = 0, most_used_ = 0;
};

}  // namespace trireme
