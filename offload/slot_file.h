// A scratch file cut into slots, each written and read as a whole, past the page cache where the
// file system allows it (O_DIRECT).
//
// A slot is its payload, zeros up to the file's block, and in its last 64 bytes a trailer: magic,
// the file's mark (a hash of its path), slot number, generation, XXH3 of all before the trailer.
// The generation counts writes of the slot; the file remembers the last one. A read that finds
// another generation (a lost or late write), another number or mark (a misdirected one) or another
// hash (damage) throws an Error that names file, slot and both values; its bytes are never used.
// Preallocated, so that a full disk shows when it is made.
//
// Hashes are formed by the pool's threads. Buffers are given by the caller: buffer_bytes(slot) of
// them, aligned to kDiskBlock, untouched until the ticket was waited for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/base/files.h"
#include "framework/base/memory_ledger.h"
#include "offload/io_pool.h"

namespace trireme {

inline constexpr std::int64_t kDiskBlock = 4096;  // bytes: what O_DIRECT wants of all three

class SlotFile {
 public:
  // Makes `path` (must not exist, 0600) with room for payloads of these sizes, counted on the
  // ledger's disk tier under `kind`. `pool` and `files` must outlive it; the file is removed when
  // it dies. Throws Error for a payload below 1 byte, and when the disk or the ledger's limit is
  // too small; nothing is left behind then.
  SlotFile(Files& files, IoPool& pool, std::string path, const std::vector<std::int64_t>& payloads,
           std::shared_ptr<MemoryLedger> ledger, MemoryKind kind);
  ~SlotFile();
  SlotFile(const SlotFile&) = delete;
  SlotFile& operator=(const SlotFile&) = delete;

  // Bytes that a payload takes in the file and in a buffer: with the trailer, a multiple of the
  // block.
  static std::int64_t slot_bytes(std::int64_t payload);

  std::int64_t slots() const;
  std::int64_t buffer_bytes(std::int64_t slot) const;  // slot_bytes() of its payload
  std::int64_t bytes() const;                          // of the file
  bool direct() const;                                 // are transfers past the page cache?
  bool written(std::int64_t slot) const;               // was a write of it started?

  // `buffer` holds the payload; the trailer is put behind it. The slot must not be in flight.
  [[nodiscard]] IoTicket start_write(std::int64_t slot, std::byte* buffer);
  // The slot must have been written before, and that write waited for.
  [[nodiscard]] IoTicket start_read(std::int64_t slot, std::byte* buffer);
  // Throws Error if the file is no longer where it was made: somebody removed it.
  void expect_present();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme
