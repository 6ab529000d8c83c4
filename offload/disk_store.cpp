#include <algorithm>
#include <cstring>
#include <utility>

#include "framework/base/error.h"
#include "offload/tiled_store.h"
#include "offload/tiling.h"

namespace trireme {

namespace {

// A view of memory that somebody else owns, as one type or another.
Tensor borrowed(std::byte* memory, std::int64_t elements, DType dtype) {
  auto storage = std::make_shared<Storage>(memory, elements * size_of(dtype), nullptr);
  return Tensor(std::move(storage), 0, {elements}, dtype);
}

// Adds the clock's time from here to the end of the block to a sum, also when the block throws.
class Stopwatch {
 public:
  Stopwatch(const std::function<double()>& clock, double& sum)
      : clock_(clock), sum_(sum), begin_(clock ? clock() : 0.0) {}
  ~Stopwatch() {
    if (clock_) sum_ += clock_() - begin_;
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  const std::function<double()>& clock_;
  double& sum_;
  double begin_;
};

class DiskStore final : public TiledStore {
 public:
  DiskStore(TiledShape shape, std::shared_ptr<MemoryLedger> ledger, const ScratchFolder& folder,
            IoPool& pool, const DiskStoreOptions& options);

  Tier tier() const override { return Tier::kDisk; }
  void update(const Work& work) override;
  void read(std::size_t part, std::size_t array, Range range, const Tensor& to) override;
  void write(std::size_t part, std::size_t array, Range range, const Tensor& from) override;
  void flush() override;
  void read_ahead(std::size_t part) override;
  void expect_present() override { file_->expect_present(); }

 private:
  static constexpr std::int64_t kNone = -1;

  // The tile that read() and write() go through; it lies in the first buffer, which update() takes.
  struct Cached {
    std::int64_t tile = kNone;
    bool dirty = false;
  };
  // Reads of a whole part under way. Tickets die before the memory that they fill.
  struct Ahead {
    std::int64_t part = kNone;
    Tensor memory;
    std::vector<std::int64_t> offsets;  // of the part's tiles in `memory`
    std::vector<IoTicket> tickets;
    void drop() {
      tickets.clear();
      *this = Ahead();
    }
  };
  // What one update has in flight. Dropped when it throws: then the tickets wait.
  struct InFlight {
    std::vector<IoTicket> reads, writes;  // by buffer
  };

  std::int64_t tiles() const { return static_cast<std::int64_t>(places_.size()); }
  const TilePlace& place(std::int64_t tile) const {
    return places_[static_cast<std::size_t>(tile)];
  }
  std::size_t buffer_of(std::int64_t tile) const { return static_cast<std::size_t>(tile) % count_; }
  std::byte* buffer(std::size_t index) const {
    return static_cast<std::byte*>(buffers_.data()) + static_cast<std::int64_t>(index) * stride_;
  }
  std::int64_t tile_at(std::size_t part, std::int64_t element) const {
    return first_tile_[part] + element / shape_.tile;
  }

  IoTicket start_read(std::int64_t tile, std::byte* into);
  IoTicket start_write(std::int64_t tile, std::byte* from);
  void wait(IoTicket& ticket, double& sum);
  void run_tile(std::int64_t tile, const Work& work);
  void run_tiles(const Work& work, InFlight& flight);
  void load(std::int64_t tile);
  void write_back();
  // Calls visit(tile, the piece of `range` in it) for each tile that `range` meets.
  template <typename Visit>
  void for_each_piece(std::size_t part, Range range, const Visit& visit) const;
  // Where `range` of an array lies in the memory of its tile.
  std::byte* inside(std::byte* memory, std::int64_t tile, std::size_t array, Range range) const;
  std::byte* wait_ahead(std::int64_t tile);

  std::shared_ptr<MemoryLedger> ledger_;
  IoPool& pool_;
  std::size_t count_;                     // buffers
  std::int64_t stride_ = 0;               // bytes of one
  std::vector<TilePlace> places_;         // of the tiles
  std::vector<std::int64_t> first_tile_;  // of each part
  std::unique_ptr<SlotFile> file_;        // a slot per tile
  Tensor buffers_;
  Cached cached_;
  Ahead ahead_;
};

DiskStore::DiskStore(TiledShape shape, std::shared_ptr<MemoryLedger> ledger,
                     const ScratchFolder& folder, IoPool& pool, const DiskStoreOptions& options)
    : TiledStore(std::move(shape)),
      ledger_(std::move(ledger)),
      pool_(pool),
      count_(static_cast<std::size_t>(options.buffers)) {
  std::vector<std::int64_t> payloads;
  first_tile_.resize(shape_.parts.size());
  for_each_tile(shape_, [&](const TilePlace& tile) {
    if (tile.range.begin == 0) first_tile_[tile.part] = tiles();
    places_.push_back(tile);
    payloads.push_back(array_offset(shape_, shape_.arrays.size(), tile.range.size()));
    stride_ = std::max(stride_, SlotFile::slot_bytes(payloads.back()));
  });
  file_ = std::make_unique<SlotFile>(folder.files(), pool, path_join(folder.path(), options.name),
                                     payloads, ledger_, shape_.kind);
  buffers_ = allocate_on_host(ledger_, {buffer_bytes(shape_, Tier::kDisk, options.buffers)},
                              DType::kU8, MemoryKind::kCommunication);
  // The gaps between arrays go to the disk too: nobody's old bytes with them.
  if (buffers_.bytes() > 0)
    std::memset(buffers_.data(), 0, static_cast<std::size_t>(buffers_.bytes()));
}

IoTicket DiskStore::start_read(std::int64_t tile, std::byte* into) {
  const std::int64_t bytes = file_->buffer_bytes(tile);
  if (!file_->written(tile))
    return pool_.start([into, bytes] { std::memset(into, 0, static_cast<std::size_t>(bytes)); });
  times_.bytes_read += bytes;
  return file_->start_read(tile, into);
}

IoTicket DiskStore::start_write(std::int64_t tile, std::byte* from) {
  times_.bytes_written += file_->buffer_bytes(tile);
  return file_->start_write(tile, from);
}

void DiskStore::wait(IoTicket& ticket, double& sum) {
  const Stopwatch watch(clock_, sum);
  ticket.wait();
}

void DiskStore::run_tile(std::int64_t tile, const Work& work) {
  const Range range = place(tile).range;
  std::byte* const memory = buffer(buffer_of(tile));
  std::vector<Tensor> views;
  for (std::size_t i = 0; i < shape_.arrays.size(); ++i)
    views.push_back(borrowed(inside(memory, tile, i, range), range.size(), shape_.arrays[i]));
  const Stopwatch watch(clock_, times_.working);
  work({place(tile).part, range, views});
}

// At step i the buffers hold: tiles being read ahead (i + 1 ... i + ahead), tile i, and tiles being
// written (i - writing ... i - 1). The buffer that the next read takes is that of the oldest write,
// which the step before has waited for.
void DiskStore::run_tiles(const Work& work, InFlight& flight) {
  const auto count = static_cast<std::int64_t>(count_);
  const std::int64_t ahead = (count - 1) / 2, writing = count - 1 - ahead;
  const auto submit_read = [&](std::int64_t tile) {
    const std::size_t b = buffer_of(tile);
    if (tile < tiles()) flight.reads[b] = start_read(tile, buffer(b));
  };
  for (std::int64_t i = 0; i < ahead; ++i) submit_read(i);
  for (std::int64_t i = 0; i < tiles(); ++i) {
    const std::size_t b = buffer_of(i);
    wait(flight.reads[b], times_.waiting_reads);
    submit_read(i + ahead);
    run_tile(i, work);
    if (i >= writing) wait(flight.writes[buffer_of(i - writing)], times_.waiting_writes);
    flight.writes[b] = start_write(i, buffer(b));
  }
  for (IoTicket& ticket : flight.writes) wait(ticket, times_.waiting_writes);
}

void DiskStore::update(const Work& work) {
  expect_whole();
  const Stopwatch watch(clock_, times_.total);
  write_back();
  cached_ = {};
  ahead_.drop();
  torn_ = true;
  InFlight flight;
  flight.reads.resize(count_);
  flight.writes.resize(count_);
  run_tiles(work, flight);
  torn_ = false;
}

template <typename Visit>
void DiskStore::for_each_piece(std::size_t part, Range range, const Visit& visit) const {
  for (std::int64_t begin = range.begin; begin < range.end;) {
    const std::int64_t tile = tile_at(part, begin);
    const Range piece = intersect({begin, range.end}, place(tile).range);
    visit(tile, piece);
    begin = piece.end;
  }
}

std::byte* DiskStore::inside(std::byte* memory, std::int64_t tile, std::size_t array,
                             Range range) const {
  const Range whole = place(tile).range;
  return memory + array_offset(shape_, array, whole.size()) +
         (range.begin - whole.begin) * size_of(shape_.arrays[array]);
}

void DiskStore::load(std::int64_t tile) {
  if (cached_.tile == tile) return;
  write_back();
  cached_ = {};
  IoTicket ticket = start_read(tile, buffer(0));
  wait(ticket, times_.waiting_reads);
  cached_.tile = tile;
}

void DiskStore::write_back() {
  if (!cached_.dirty) return;
  IoTicket ticket = start_write(cached_.tile, buffer(0));
  wait(ticket, times_.waiting_writes);
  cached_.dirty = false;
}

void DiskStore::flush() {
  expect_whole();
  const Stopwatch watch(clock_, times_.total);
  write_back();
}

void DiskStore::write(std::size_t part, std::size_t array, Range range, const Tensor& from) {
  expect_whole();
  check_access(shape_, "write", part, array, range, from);
  const Stopwatch watch(clock_, times_.total);
  if (ahead_.part == static_cast<std::int64_t>(part)) ahead_.drop();
  const auto* source = static_cast<const std::byte*>(from.data());
  for_each_piece(part, range, [&](std::int64_t tile, Range piece) {
    load(tile);
    const std::int64_t size = size_of(shape_.arrays[array]);
    copy_bytes(inside(buffer(0), tile, array, piece), source + (piece.begin - range.begin) * size,
               piece.size() * size);
    cached_.dirty = true;
  });
}

void DiskStore::read(std::size_t part, std::size_t array, Range range, const Tensor& to) {
  expect_whole();
  check_access(shape_, "read", part, array, range, to);
  const Stopwatch watch(clock_, times_.total);
  const bool ahead = ahead_.part == static_cast<std::int64_t>(part);
  auto* target = static_cast<std::byte*>(to.data());
  for_each_piece(part, range, [&](std::int64_t tile, Range piece) {
    if (!ahead) load(tile);
    std::byte* const memory = ahead ? wait_ahead(tile) : buffer(0);
    const std::int64_t size = size_of(shape_.arrays[array]);
    copy_bytes(target + (piece.begin - range.begin) * size, inside(memory, tile, array, piece),
               piece.size() * size);
  });
  if (ahead && range.end == shape_.parts[part]) ahead_.drop();
}

void DiskStore::read_ahead(std::size_t part) {
  expect_whole();
  check(part < shape_.parts.size(), "offload: read ahead of part ", part, "; the store has ",
        shape_.parts.size());
  if (ahead_.part == static_cast<std::int64_t>(part)) return;
  ahead_.drop();
  const std::int64_t elements = shape_.parts[part];
  if (elements == 0) return;
  write_back();
  const std::int64_t first = tile_at(part, 0), last = tile_at(part, elements - 1);
  Ahead next;
  std::int64_t bytes = 0;
  for (std::int64_t tile = first; tile <= last; ++tile) {
    next.offsets.push_back(bytes);
    bytes += file_->buffer_bytes(tile);
  }
  next.memory = allocate_on_host(ledger_, {bytes}, DType::kU8, MemoryKind::kCommunication);
  auto* const memory = static_cast<std::byte*>(next.memory.data());
  for (std::int64_t tile = first; tile <= last; ++tile)
    next.tickets.push_back(
        start_read(tile, memory + next.offsets[static_cast<std::size_t>(tile - first)]));
  next.part = static_cast<std::int64_t>(part);
  ahead_ = std::move(next);
}

std::byte* DiskStore::wait_ahead(std::int64_t tile) {
  const auto i = static_cast<std::size_t>(tile - first_tile_[place(tile).part]);
  try {
    wait(ahead_.tickets[i], times_.waiting_reads);
  } catch (...) {
    ahead_.drop();  // nothing may be served from bytes that did not come
    throw;
  }
  return static_cast<std::byte*>(ahead_.memory.data()) + ahead_.offsets[i];
}

}  // namespace

std::unique_ptr<TiledStore> make_disk_store(TiledShape shape, std::shared_ptr<MemoryLedger> ledger,
                                            const ScratchFolder& folder, IoPool& pool,
                                            const DiskStoreOptions& options) {
  check_shape(shape);
  check(options.buffers >= 3, "offload: ", options.name, " has ", options.buffers,
        " buffers; at least 3 are needed: one is read, one worked on, one written");
  check(!options.name.empty() && options.name.find('/') == std::string::npos, "offload: \"",
        options.name, "\" is no name for a file");
  return std::make_unique<DiskStore>(std::move(shape), std::move(ledger), folder, pool, options);
}

}  // namespace trireme
