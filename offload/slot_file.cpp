#include "offload/slot_file.h"

#include <xxhash.h>

#include <array>
#include <cstring>
#include <utility>

#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr std::int64_t kTrailerBytes = 64;
constexpr std::uint64_t kMagic = 0x31746f6c53697254;  // "TriSlot1"

struct Trailer {
  std::uint64_t magic = kMagic;
  std::uint64_t file = 0;  // the mark
  std::uint64_t slot = 0;
  std::uint64_t generation = 0;
  std::uint64_t hash = 0;
  std::array<std::uint64_t, 3> zeros{};
};
static_assert(sizeof(Trailer) == kTrailerBytes);

std::uint64_t hash_of(const void* data, std::int64_t bytes) {
  return XXH3_64bits(data, static_cast<std::size_t>(bytes));
}

// One transfer of a slot, as a thread of the pool makes it. Holds the file open while it runs.
struct Transfer {
  std::shared_ptr<File> file;
  std::int64_t slot = 0, begin = 0, payload = 0, bytes = 0;
  Trailer expected;  // without the hash
  std::byte* buffer = nullptr;

  std::int64_t hashed() const { return bytes - kTrailerBytes; }

  void write() const {
    std::memset(buffer + payload, 0, static_cast<std::size_t>(hashed() - payload));
    Trailer trailer = expected;
    trailer.hash = hash_of(buffer, hashed());
    std::memcpy(buffer + hashed(), &trailer, sizeof trailer);
    file->write(buffer, bytes, begin);
  }

  void read() const {
    file->read(buffer, bytes, begin);
    Trailer found, right = expected;
    std::memcpy(&found, buffer + hashed(), sizeof found);
    // What is in the wrong place shows first: its hash is in order.
    compare("mark", right.magic, found.magic);
    compare("file", right.file, found.file);
    compare("slot number", right.slot, found.slot);
    compare("generation", right.generation, found.generation);
    right.hash = hash_of(buffer, hashed());
    compare("hash of the bytes", right.hash, found.hash);
    check(found.zeros == right.zeros, sentence(), "the end of its trailer is damaged");
  }

  std::string sentence() const { return join("read ", file->path(), ": slot ", slot, ": "); }
  void compare(const char* what, std::uint64_t right, std::uint64_t found) const {
    check(found == right, sentence(), what, " is ", right, " but the trailer says ", found,
          ": the disk did not keep what was written");
  }
};

}  // namespace

struct SlotFile::Impl {
  struct Slot {
    std::int64_t begin = 0, payload = 0, bytes = 0;
    std::uint64_t generation = 0;  // writes started
  };

  Impl(Files& f, IoPool& p, std::string where, std::shared_ptr<MemoryLedger> l, MemoryKind k)
      : files(f), pool(p), path(std::move(where)), ledger(std::move(l)), kind(k) {}
  ~Impl() {
    if (file) {
      file.reset();
      try {
        files.remove(path);
      } catch (...) {
        // Its folder is removed with everything inside; nobody can be told here.
      }
    }
    ledger->remove(Tier::kDisk, kind, counted);
  }

  void lay_out(const std::vector<std::int64_t>& payloads) {
    for (std::size_t i = 0; i < payloads.size(); ++i) {
      check(payloads[i] >= 1, "create ", path, ": slot ", i, " has ", payloads[i],
            " bytes; at least 1 is needed");
      slots.push_back({bytes, payloads[i], slot_bytes(payloads[i]), 0});
      bytes += slots.back().bytes;
    }
  }

  Slot& at(std::int64_t slot) {
    check(slot >= 0 && slot < static_cast<std::int64_t>(slots.size()), path, " has no slot ", slot,
          ", only ", slots.size());
    return slots[static_cast<std::size_t>(slot)];
  }

  Transfer transfer(std::int64_t number, std::byte* buffer) {
    const Slot& slot = at(number);
    Transfer out{file, number, slot.begin, slot.payload, slot.bytes, {}, buffer};
    out.expected.file = hash_of(path.data(), static_cast<std::int64_t>(path.size()));
    out.expected.slot = static_cast<std::uint64_t>(number);
    out.expected.generation = slot.generation;
    return out;
  }

  Files& files;
  IoPool& pool;
  std::string path;
  std::shared_ptr<MemoryLedger> ledger;
  MemoryKind kind;
  std::shared_ptr<File> file;
  std::vector<Slot> slots;
  std::int64_t bytes = 0;
  std::int64_t counted = 0;
};

SlotFile::SlotFile(Files& files, IoPool& pool, std::string path,
                   const std::vector<std::int64_t>& payloads, std::shared_ptr<MemoryLedger> ledger,
                   MemoryKind kind)
    : impl_(std::make_unique<Impl>(files, pool, std::move(path), std::move(ledger), kind)) {
  impl_->lay_out(payloads);
  impl_->ledger->add(Tier::kDisk, kind, impl_->bytes);
  impl_->counted = impl_->bytes;
  impl_->file = files.open(impl_->path, OpenMode::kScratch);
  impl_->file->preallocate(impl_->bytes);
}

SlotFile::~SlotFile() = default;

std::int64_t SlotFile::slot_bytes(std::int64_t payload) {
  return (payload + kTrailerBytes + kDiskBlock - 1) / kDiskBlock * kDiskBlock;
}

std::int64_t SlotFile::slots() const { return static_cast<std::int64_t>(impl_->slots.size()); }
std::int64_t SlotFile::buffer_bytes(std::int64_t slot) const { return impl_->at(slot).bytes; }
std::int64_t SlotFile::bytes() const { return impl_->bytes; }
bool SlotFile::direct() const { return impl_->file->direct(); }
bool SlotFile::written(std::int64_t slot) const { return impl_->at(slot).generation > 0; }

IoTicket SlotFile::start_write(std::int64_t slot, std::byte* buffer) {
  ++impl_->at(slot).generation;
  return impl_->pool.start([transfer = impl_->transfer(slot, buffer)] { transfer.write(); });
}

IoTicket SlotFile::start_read(std::int64_t slot, std::byte* buffer) {
  check(written(slot), "read ", impl_->path, ": slot ", slot, " was never written");
  return impl_->pool.start([transfer = impl_->transfer(slot, buffer)] { transfer.read(); });
}

void SlotFile::expect_present() {
  const FileStatus status = impl_->files.status(impl_->path);
  check(status.kind == FileKind::kFile, impl_->path,
        " is no longer there: somebody removed it while the run was using it");
  check(status.bytes == impl_->bytes, impl_->path, " has ", status.bytes, " bytes instead of ",
        impl_->bytes, ": somebody changed it while the run was using it");
}

}  // namespace trireme
