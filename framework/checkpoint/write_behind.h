// Blocks on their way to a file: filled by whoever writes, hashed and moved to the disk by threads
// of its own while the next ones are filled. Past the page cache where the file allows it: then a
// block's memory must be aligned, and one request at a time leaves the disk idle between two.
//
// What is not whole pages can only go through the page cache, which makes the file system let the
// transfers under way end first: it is put off until there is a block of it, or nothing else.
//
// Takes kBlocks blocks of memory, allocated when it is made, and at most two of what is put off.
// May be used by several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "framework/base/condition.h"
#include "framework/base/files.h"

namespace trireme {

class WriteBehind {
 public:
  static constexpr int kBlocks = 12;
  static constexpr int kThreads = 6;

  // `file` must outlive it.
  WriteBehind(File& file, std::int64_t block_bytes);
  // Waits for writes under way; blocks that wait are dropped.
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  // Told the XXH3-64 of a block that was written, by one of the threads. Throws nothing.
  using Written = std::function<void(std::uint64_t hash)>;
  // Puts `bytes` bytes into the memory given, which is aligned to a page. May throw.
  using Fill = std::function<void(void* block)>;
  // Waits for a block and has it filled with `bytes` (at most a block's), to be written at
  // `offset`. Throws what `fill` or an earlier write threw.
  void write(std::int64_t bytes, std::int64_t offset, const Fill& fill, Written written);
  // Copies `bytes` (less than a page), to be written at `offset` some time.
  void write_late(const void* from, std::int64_t bytes, std::int64_t offset);
  // Until all is written; throws what a write threw.
  void drain();

 private:
  struct Free {
    void operator()(std::byte* block) const;
  };
  using Block = std::unique_ptr<std::byte, Free>;
  struct Job {
    std::byte* block;
    std::int64_t bytes, offset;
    Written written;
  };

  struct Late {
    std::int64_t bytes, offset;
  };

  std::byte* take();
  void give_back(std::byte* block);
  void work();
  void write_pages(const Job& job);
  void write_what_is_late();
  void stop();

  File& file_;
  std::vector<Block> blocks_;
  std::mutex mutex_;
  Condition wanted_, freed_;  // there is a job, or the end; a block came back
  std::vector<std::byte*> free_;
  std::deque<Job> jobs_;
  std::vector<Late> late_;
  std::vector<std::byte> late_bytes_;  // of all of them, in their order
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace trireme
