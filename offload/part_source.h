// Where the parts of a rank's streamed weights lie, and how one of them is brought into device
// memory: in requests of at most kRequestBytes, several of which are under way at a time.
//
// Three kinds: memory of the host; a scratch file that a copy was written to; ranges of files that
// hold the bytes as they are wanted (a model folder's own), which nothing is copied of. Files are
// read past the page cache. Where the device's memory is the machine's, whole blocks are read to
// where they belong; what does not lie in the file as it lies in memory, modulo the disk's block,
// goes through a buffer. Other devices get everything from these buffers.
//
// start() is called by the rank's thread, its requests run on the pool's. What fails is thrown by
// the ticket's wait().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/backend/backend.h"
#include "framework/base/range.h"
#include "offload/scratch_folder.h"
#include "offload/slot_file.h"

namespace trireme {

inline constexpr std::int64_t kRequestBytes = std::int64_t{2} << 20;

// Bytes of a part that lie in a file.
struct FileExtent {
  std::size_t file = 0;     // index in the list of files
  std::int64_t offset = 0;  // there
  std::int64_t bytes = 0;
  std::int64_t at = 0;  // of the part
};

// Where a part goes. `bytes` (U8) begins with the part's first byte; behind the part there is room
// up to the end of a block.
struct Landing {
  Backend* device = nullptr;
  Tensor bytes;
  std::byte* memory = nullptr;       // of `bytes`, where the host may write there; null: upload
  std::shared_ptr<const void> last;  // dies with the last request
};

class PartSource {
 public:
  virtual ~PartSource() = default;
  virtual Tier tier() const = 0;
  // The address of a part's first byte that spares most copies, modulo kDiskBlock.
  virtual std::int64_t phase(std::size_t part) const = 0;
  virtual void start(std::size_t part, const Landing& to, std::vector<IoTicket>& tickets) = 0;
  // Synchronous, for loading. Never written bytes are zero. Ranges of files cannot be written.
  virtual void read(std::size_t part, std::int64_t at, std::int64_t bytes, void* to) = 0;
  virtual void write(std::size_t part, std::int64_t at, std::int64_t bytes, const void* from) = 0;
  virtual void flush() {}
  virtual void expect_present() {}
};

// `sizes`: bytes of each part, 0 for parts that lie elsewhere. Pools must outlive their source.
std::unique_ptr<PartSource> parts_in_memory(const std::vector<std::int64_t>& sizes,
                                            std::shared_ptr<MemoryLedger> ledger, IoPool& pool);
// Each request of the copy is compared with its hash when it is first read.
std::unique_ptr<PartSource> parts_in_copy(const std::vector<std::int64_t>& sizes,
                                          std::shared_ptr<MemoryLedger> ledger,
                                          const ScratchFolder& folder, IoPool& pool);
// Extents of each part in ascending order; what they leave out is zero.
std::unique_ptr<PartSource> parts_in_files(const std::vector<std::int64_t>& sizes,
                                           std::vector<std::vector<FileExtent>> extents,
                                           const std::vector<std::string>& paths, Files& files,
                                           std::shared_ptr<MemoryLedger> ledger, IoPool& pool);
}  // namespace trireme
