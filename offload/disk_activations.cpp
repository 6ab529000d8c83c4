// Recompute's inputs on disk: a file of equal slots and a few host buffers that writes leave from.
#include <algorithm>
#include <cstring>
#include <utility>

#include "framework/base/error.h"
#include "offload/activation_stores.h"
#include "offload/tiled_store.h"

namespace trireme {

namespace {

constexpr std::int64_t kNone = -1;

// File, slots and buffers. Fetches hold it weakly: it dies with its store, whose pool and folder it
// needs.
class Slots {
 public:
  Slots(Backend& backend, const ScratchFolder& folder, IoPool& pool, const DiskActivations& options)
      : backend_(backend),
        options_(options),
        file_(
            folder.files(), pool, path_join(folder.path(), "activations"),
            std::vector<std::int64_t>(static_cast<std::size_t>(options.slots), options.slot_bytes),
            backend.shared_ledger(), MemoryKind::kActivations),
        in_flight_(static_cast<std::size_t>(options.buffers)) {
    const std::int64_t bytes =
        options.slots == 0 ? 0 : options.buffers * SlotFile::slot_bytes(options.slot_bytes);
    memory_ =
        allocate_on_host(backend.shared_ledger(), {bytes}, DType::kU8, MemoryKind::kCommunication);
    // A slot goes to the disk whole, also behind a smaller input: nobody's old bytes with it.
    if (bytes > 0) std::memset(memory_.data(), 0, static_cast<std::size_t>(bytes));
    free_.reserve(static_cast<std::size_t>(options.slots));  // slots come back in destructors
    for (std::int64_t slot = options.slots; slot-- > 0;) free_.push_back(slot);
  }

  // Begins to write x and returns its slot.
  std::int64_t put(const Tensor& x) {
    check(x.bytes() <= options_.slot_bytes, "offload: an input ", x.shape(), " of ",
          name_of(x.dtype()), " has ", x.bytes(), " bytes, but a slot for activations has ",
          options_.slot_bytes);
    check(!free_.empty(), "offload: ", options_.slots,
          " inputs are kept for backward already, and there are slots for no more");
    const std::size_t index = take_buffer();
    backend_.download(x, buffer(index));
    const std::int64_t slot = free_.back();
    in_flight_[index] = {slot, ++puts_, file_.start_write(slot, buffer(index))};
    free_.pop_back();
    return slot;
  }

  void get(std::int64_t slot, const Tensor& to) {
    for (Writing& writing : in_flight_)
      if (writing.slot == slot) finish(writing);
    const std::size_t index = take_buffer();
    file_.start_read(slot, buffer(index)).wait();
    backend_.upload(buffer(index), to);
  }

  void give_back(std::int64_t slot) {
    for (Writing& writing : in_flight_)
      if (writing.slot == slot) writing = {};  // waits, for the slot will be written again
    free_.push_back(slot);
  }

 private:
  struct Writing {
    std::int64_t slot = kNone;  // none: the buffer is free
    std::int64_t order = 0;
    IoTicket ticket;
  };

  std::byte* buffer(std::size_t index) const {
    return static_cast<std::byte*>(memory_.data()) +
           static_cast<std::int64_t>(index) * SlotFile::slot_bytes(options_.slot_bytes);
  }

  static void finish(Writing& writing) {
    writing.slot = kNone;
    writing.ticket.wait();
  }

  // A free buffer, or else that of the oldest write.
  std::size_t take_buffer() {
    const auto chosen = std::min_element(
        in_flight_.begin(), in_flight_.end(), [](const Writing& a, const Writing& b) {
          return std::pair(a.slot != kNone, a.order) < std::pair(b.slot != kNone, b.order);
        });
    finish(*chosen);
    return static_cast<std::size_t>(chosen - in_flight_.begin());
  }

  Backend& backend_;
  DiskActivations options_;
  SlotFile file_;
  std::vector<std::int64_t> free_;
  Tensor memory_;
  std::vector<Writing> in_flight_;  // by buffer; their tickets die first, and wait
  std::int64_t puts_ = 0;
};

// One kept input: gives its slot back when it is fetched or dropped.
class Kept {
 public:
  Kept(Backend& backend, const std::shared_ptr<Slots>& slots, const Tensor& x)
      : backend_(backend), slots_(slots), shape_(x.shape()), dtype_(x.dtype()) {
    if (x.bytes() > 0) slot_ = slots->put(x);
  }
  ~Kept() { release(); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  Tensor fetch() {
    check(!fetched_, "offload: a kept input is fetched a second time");
    const std::shared_ptr<Slots> slots = slots_.lock();
    check(slots != nullptr, "offload: a kept input is fetched after its store on disk has gone");
    Tensor x = backend_.allocate(shape_, dtype_, MemoryKind::kActivations);
    if (slot_ != kNone) slots->get(slot_, x);
    release();
    fetched_ = true;
    return x;
  }

 private:
  void release() {
    const std::int64_t slot = std::exchange(slot_, kNone);
    if (slot == kNone) return;
    if (const std::shared_ptr<Slots> slots = slots_.lock()) slots->give_back(slot);
  }

  Backend& backend_;
  std::weak_ptr<Slots> slots_;
  Shape shape_;
  DType dtype_;
  std::int64_t slot_ = kNone;
  bool fetched_ = false;
};

class ActivationsOnDisk final : public ActivationStore {
 public:
  ActivationsOnDisk(Backend& backend, std::shared_ptr<Slots> slots)
      : backend_(backend), slots_(std::move(slots)) {}

  Fetch keep(Tensor x) override {
    return [kept = std::make_shared<Kept>(backend_, slots_, x)] { return kept->fetch(); };
  }

 private:
  Backend& backend_;
  std::shared_ptr<Slots> slots_;
};

}  // namespace

std::unique_ptr<ActivationStore> activations_on_disk(Backend& backend, const ScratchFolder& folder,
                                                     IoPool& pool, const DiskActivations& options) {
  check(options.slots >= 0 && (options.slots == 0 || options.slot_bytes >= 1),
        "offload: activations have ", options.slots, " slots of ", options.slot_bytes,
        " bytes; at least 1 byte is needed");
  check(options.buffers >= 1, "offload: activations have ", options.buffers,
        " buffers; at least 1 is needed");
  return std::make_unique<ActivationsOnDisk>(
      backend, std::make_shared<Slots>(backend, folder, pool, options));
}

}  // namespace trireme
