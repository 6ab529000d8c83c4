// Reads rectangles of logical arrays out of a verified checkpoint, whatever layout wrote it.
//
// Opening reads the manifest and compares names and sizes of all files; reading checks the hash of
// every block that it touches, once, so nothing damaged is ever used. It reads by offsets from the
// manifest, never through HDF5's virtual datasets (a missing source reads as zeros there). Values
// are converted to the type asked for. Missing, changed, uncovered or doubly covered elements: an
// Error naming the tensor. One reader may serve all ranks of a process.
//
// A checkpoint is good when glance_at_checkpoint() has nothing to say and every block was read: who
// loads all of it needs no other pass over its bytes. Damage and files that cannot be read are a
// DamagedCheckpoint, which an older one may help against; other Errors are the caller's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/base/error.h"
#include "framework/checkpoint/manifest.h"
#include "framework/checkpoint/read_team.h"

namespace trireme {

class DamagedCheckpoint : public Error {
 public:
  using Error::Error;
};

class CheckpointReader {
 public:
  // `threads` work on a large read(), or on verify_unread(): the caller's and helpers of its own,
  // each with a buffer of kHashBlock bytes.
  CheckpointReader(Files& files, const std::string& folder, int threads = 1);
  // Of files whose manifest is not written yet.
  CheckpointReader(Files& files, const std::string& folder, Manifest manifest);
  ~CheckpointReader();

  const Manifest& manifest() const;
  // Arrays in it, by name.
  std::vector<LogicalArray> arrays() const;
  bool has(const ArrayName& name) const;
  // Throws Error naming tensor and both shapes when the checkpoint's differs from `shape`.
  void expect_shape(const ArrayName& name, const Shape& shape) const;
  // A read under way, which the caller may leave to the helpers while it does something else.
  // Dropping it waits for nobody but those who write to `out`. The reader must outlive it.
  class Reading {
   public:
    void wait();

   private:
    friend class CheckpointReader;
    std::vector<ReadTeam::Work> parts_;
  };
  // The rectangle, row-major, converted to `dtype` (to nearest even, once; the same type keeps
  // every bit). After an Error `out` holds anything. Large blocks are read past the page cache,
  // unless they are in it, where `out` and the rectangle begin on a page (4096 bytes).
  void read(const ArrayName& name, const Rectangle& at, DType dtype, void* out) const {
    start_read(name, at, dtype, out).wait();
  }
  [[nodiscard]] Reading start_read(const ArrayName& name, const Rectangle& at, DType dtype,
                                   void* out) const;
  // Reads and compares every byte of every file; returns a sentence per damaged file or piece, all
  // of them.
  std::vector<std::string> verify() const;
  // Reads and compares the blocks of arrays that no read() has touched; throws DamagedCheckpoint.
  void verify_unread() const;

 private:
  friend std::vector<std::string> verify_checkpoint(Files&, const std::string&);
  friend std::vector<std::string> glance_at_checkpoint(Files&, const std::string&);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Error if there is none, or a damaged one.
Manifest read_manifest(Files& files, const std::string& folder);

// As CheckpointReader::verify(), also of a checkpoint that cannot even be opened: without a good
// manifest that is the one sentence, and every missing file has its own. Empty: all is well.
std::vector<std::string> verify_checkpoint(Files& files, const std::string& folder);
// The same without the blocks of arrays, whose readers compare them: the manifest, names and sizes
// of all files, and the bytes in them that belong to no array.
std::vector<std::string> glance_at_checkpoint(Files& files, const std::string& folder);

}  // namespace trireme
