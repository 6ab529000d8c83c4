// Flat arrays of one rank that live on the host or on disk, worked on in tiles.
//
// A store holds `arrays` equally long arrays side by side (master, m and v; or the weights alone),
// cut into parts (one per ZeRO unit) and these into tiles of at most `tile` elements. It knows
// neither units nor optimizers: update() hands every tile to a callable, on the host, in order, and
// keeps what it leaves there. Elementwise work gives the same bits for any tile size and tier.
//
// Host: the tile is a view of memory at home. Disk (ZeRO-Infinity, arXiv 2104.07857, section 6.3):
// one slot per tile with all arrays in it, and one loop over `buffers` >= 3 buffers:
//   wait read(i); submit read(i + 1); work(i); wait write(i - 1); submit write(i).
// Memory of a disk store: its buffers, counted on the host tier as communication.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/backend/backend.h"
#include "framework/base/range.h"
#include "offload/scratch_folder.h"
#include "offload/slot_file.h"

namespace trireme {

struct TiledShape {
  std::vector<std::int64_t> parts;  // elements of each part; may be 0
  std::vector<DType> arrays;
  std::int64_t tile = std::int64_t{1} << 20;  // elements
  MemoryKind kind = MemoryKind::kOptimizer;
};

struct Tile {
  std::size_t part = 0;
  Range range;                     // elements of the part
  std::span<const Tensor> arrays;  // on the host, range.size() elements each
};

// Seconds of the calls since the last reset, on the clock given; and bytes moved.
struct StoreTimes {
  double waiting_reads = 0, waiting_writes = 0;  // for the disk
  double working = 0;                            // in the callables of update()
  double total = 0;                              // in update(), read(), write() and flush()
  std::int64_t bytes_read = 0, bytes_written = 0;
};

class TiledStore {
 public:
  using Work = std::function<void(const Tile&)>;
  virtual ~TiledStore() = default;

  const TiledShape& shape() const { return shape_; }
  virtual Tier tier() const = 0;
  // Every tile of every part, in order. Collective over nothing. `work` must not call the store. If
  // `work` or the disk fails, the store is of no use any more, since its tiles are of two steps:
  // every later call of it throws Error.
  virtual void update(const Work& work) = 0;
  // Elements `range` of one array of a part, to or from a tensor on the host of that type. Never
  // written elements read as zeros. On disk through one cached tile, meant for whole tiles or
  // for neighbours in order; flush() writes it back.
  virtual void read(std::size_t part, std::size_t array, Range range, const Tensor& to) = 0;
  virtual void write(std::size_t part, std::size_t array, Range range, const Tensor& from) = 0;
  virtual void flush() = 0;
  // A hint: the whole part will be read soon, from its begin to its end. Takes host memory of the
  // part's size (home_bytes of it, counted as communication) until a read reached the end of the
  // part, something is written to it, or the next update() or read_ahead(). One part at a time;
  // asking twice for the same does nothing.
  virtual void read_ahead(std::size_t part) = 0;
  // Throws Error when files were removed underneath.
  virtual void expect_present() = 0;

  void set_clock(std::function<double()> clock) { clock_ = std::move(clock); }
  const StoreTimes& times() const { return times_; }
  void reset_times() { times_ = {}; }

  // Bytes at home for a shape, the trailers and block padding of a disk included: a pure formula.
  static std::int64_t home_bytes(const TiledShape& shape, Tier tier);
  // Host bytes that a disk store keeps for its buffers; 0 for the host tier.
  static std::int64_t buffer_bytes(const TiledShape& shape, Tier tier, int buffers);

 protected:
  explicit TiledStore(TiledShape shape) : shape_(std::move(shape)) {}
  double now() const { return clock_ ? clock_() : 0.0; }
  // Called first by everything that needs tiles of one step.
  void expect_whole() const;

  TiledShape shape_;
  std::function<double()> clock_;
  StoreTimes times_;
  bool torn_ = false;  // an update is running or failed
};

// Host memory as a tensor, counted on the ledger's host tier. Uninitialised; 4 KiB aligned.
Tensor allocate_on_host(const std::shared_ptr<MemoryLedger>& ledger, Shape shape, DType dtype,
                        MemoryKind kind);

std::unique_ptr<TiledStore> make_host_store(TiledShape shape, std::shared_ptr<MemoryLedger> ledger);

struct DiskStoreOptions {
  int buffers = 4;   // at least 3; with more, several reads or writes are in flight
  std::string name;  // of the file: "optimizer"
};
// `folder` and `pool` must outlive it.
std::unique_ptr<TiledStore> make_disk_store(TiledShape shape, std::shared_ptr<MemoryLedger> ledger,
                                            const ScratchFolder& folder, IoPool& pool,
                                            const DiskStoreOptions& options);

}  // namespace trireme
