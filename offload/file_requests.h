// Requests for bytes of files: how an extent is cut, and how each cut is read. Internal to the part
// sources that lie in files.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "offload/part_source.h"

namespace trireme {

// One buffer for each thread of a pool, for what cannot be read to where it belongs. Counted on the
// host tier as communication.
class RequestBuffers {
 public:
  RequestBuffers(const std::shared_ptr<MemoryLedger>& ledger, int count);
  static constexpr std::int64_t kBytes = kRequestBytes + 2 * kDiskBlock;

  // Lent to the thread that asks, until it dies.
  class Loan {
   public:
    explicit Loan(RequestBuffers& owner);
    ~Loan();
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    std::byte* data() const { return data_; }

   private:
    RequestBuffers& owner_;
    std::byte* data_;
  };

 private:
  std::mutex mutex_;
  Tensor memory_;
  std::vector<std::byte*> free_;
};

// Joins neighbours that follow each other in the file and in the part.
std::vector<FileExtent> joined(std::vector<FileExtent> extents);
// The phase under which most bytes can be read in place: a multiple of `unit` bytes.
std::int64_t best_phase(const std::vector<FileExtent>& extents, std::int64_t unit);
// Cuts at the file's blocks, into requests of kRequestBytes. Whole blocks of an extent that lies in
// the part as in the file (`phase`) are requests of their own.
std::vector<FileExtent> requests_of(const FileExtent& extent, std::int64_t phase);
// Can this request be read to where it belongs?
bool in_place(const FileExtent& request, std::int64_t phase);

// Brings one request to `to`, as a thread of the pool.
void read_request(File& file, const FileExtent& request, bool direct, const Landing& to,
                  RequestBuffers& buffers);
// Zeros bytes [at, at + bytes) of it.
void zero_request(std::int64_t at, std::int64_t bytes, const Landing& to, RequestBuffers& buffers);

}  // namespace trireme
