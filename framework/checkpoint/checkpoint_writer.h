// Writes one process's file of a checkpoint: a dataset per rectangle, contiguous, allocated early,
// never filled, on 4 KiB boundaries if it has as many bytes; ranks of the process write their
// rectangles side by side with pwrite, past libhdf5, whose global lock they never take.
// Whole blocks go to the disk past the page cache, where it allows that, by threads of the writer,
// while their successors are handed over (write_behind.h).
//
// Two phases. The constructor, called by one thread, makes the HDF5 file with all datasets and
// closes it again: from then on the offsets are known and only bytes are written. write() may be
// called by any thread. finish() syncs and tells what the manifest must record. Nothing is promised
// until that manifest is written (manifest.h): a file without it is rubbish.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/base/files.h"
#include "framework/checkpoint/logical.h"

namespace trireme {

// Hashes are XXH3-64 of blocks of this many bytes of a rectangle's data (the last one smaller), so
// that a reader of a part checks that part.
inline constexpr std::int64_t kHashBlock = std::int64_t{1} << 20;

struct StoredPiece {
  Piece piece;
  std::string dataset;      // path in the HDF5 file: "/layers.3.attention.k.weight/value/0,0"
  std::int64_t offset = 0;  // of its first byte in the file
  std::vector<std::uint64_t> hashes;  // of its blocks
};

struct StoredFile {
  std::string name;  // in the checkpoint's folder: "ranks-0.h5"
  std::int64_t bytes = 0;
  std::uint64_t rest_hash = 0;  // of all bytes that belong to no piece, in order
  std::vector<StoredPiece> pieces;
};

class CheckpointWriter {
 public:
  // Pieces may not overlap; empty ones are left out. Throws Error, with nothing left behind, when
  // the disk is full: room is taken here.
  CheckpointWriter(Files& files, const std::string& folder, const std::string& name,
                   std::vector<Piece> pieces);
  ~CheckpointWriter();

  // Elements [begin, begin + count) of piece `index` in row-major order of its rectangle, in its
  // type. `data` is free again at the return; what fails later is thrown by a later call or
  // finish(). Every element exactly once; calls for one piece may come in any order if `begin` is a
  // multiple of kHashBlock bytes, else in order.
  void write(std::size_t index, std::int64_t begin, std::int64_t count, const void* data);
  // The same for one whole block: `begin` is a multiple of kHashBlock bytes, `count` a block's or
  // up to the end. `fill` puts the elements where it is told to, which spares a copy.
  using Fill = std::function<void(void* block)>;
  void fill(std::size_t index, std::int64_t begin, std::int64_t count, const Fill& fill);
  // Throws Error when an element was not written. Syncs.
  StoredFile finish();

  // Bytes that a file of these pieces takes on disk, HDF5's own included, from above.
  static std::int64_t bytes_needed(const std::vector<Piece>& pieces);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme
