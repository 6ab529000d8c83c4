#include "offload/weight_stream.h"

#include <algorithm>
#include <numeric>

#include "framework/base/error.h"
#include "offload/tiling.h"

namespace trireme {

namespace {

// Around a unit: up to the phase that spares copies, and to the end of a block.
constexpr std::int64_t kRoom = 2 * kDiskBlock;

TiledShape tiled(const WeightStreamShape& shape) {
  TiledShape t{.arrays = {shape.dtype}, .kind = MemoryKind::kParameters};
  for (const StreamedPart& part : shape.parts) t.parts.push_back(part.own.size());
  return t;
}

std::vector<std::size_t> largest_first(const WeightStreamShape& shape) {
  std::vector<std::size_t> order(shape.parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return shape.parts[a].whole > shape.parts[b].whole;
  });
  return order;
}

}  // namespace

std::int64_t WeightStreamShape::resident_bytes(std::size_t part) const {
  return parts[part].whole * size_of(dtype) + kRoom;
}

std::int64_t WeightStreamShape::slot_bytes() const {
  std::int64_t most = 0;
  for (std::size_t p = 0; p < parts.size(); ++p)
    if (!parts[p].resident) most = std::max(most, resident_bytes(p));
  return most;
}

std::int64_t WeightStreamShape::slots_bytes() const { return slots * slot_bytes(); }

std::int64_t WeightStreamShape::residents_bytes() const {
  std::int64_t bytes = 0;
  for (std::size_t p = 0; p < parts.size(); ++p)
    if (parts[p].resident) bytes += resident_bytes(p);
  return bytes;
}

std::vector<std::int64_t> WeightStreamShape::source_bytes() const {
  std::vector<std::int64_t> bytes;
  for (const StreamedPart& part : parts)
    bytes.push_back(part.resident ? 0 : part.own.size() * size_of(dtype));
  return bytes;
}

void choose_residents(WeightStreamShape& shape, std::int64_t budget) {
  for (const std::size_t p : largest_first(shape)) {
    const std::int64_t bytes = shape.resident_bytes(p);
    shape.parts[p].resident = bytes <= budget;
    if (shape.parts[p].resident) budget -= bytes;
  }
}

bool choose_residents_within(WeightStreamShape& shape, std::int64_t total) {
  std::vector<std::size_t> order = largest_first(shape);
  for (StreamedPart& part : shape.parts) part.resident = true;
  // One part less after the other, the smallest first. Slots grow by it as residents shrink.
  while (shape.device_bytes() > total && !order.empty()) {
    shape.parts[order.back()].resident = false;
    order.pop_back();
  }
  return shape.device_bytes() <= total;
}

// Seconds with requests under way, which end on the pool's threads.
struct WeightStream::Meter {
  std::mutex mutex;
  std::int64_t under_way = 0;
  double begin = 0, busy = 0;
};

WeightStream::WeightStream(Backend& device, WeightStreamShape shape, int threads, MakeSource source)
    : TiledStore(tiled(shape)),
      device_(device),
      layout_(std::move(shape)),
      pool_(threads),
      make_source_(std::move(source)),
      meter_(std::make_shared<Meter>()) {
  check(layout_.slots >= 2, "offload.slots = ", layout_.slots,
        ": at least 2 are needed: one is used while another is filled");
  for (std::size_t p = 0; p < layout_.parts.size(); ++p) {
    residents_.push_back(nullptr);
    if (!layout_.parts[p].resident) continue;
    residents_.back() = std::make_unique<Resident>(Resident{make_place(layout_.resident_bytes(p))});
    residents_.back()->place.part = p;
  }
  if (layout_.slot_bytes() > 0)
    for (int i = 0; i < layout_.slots; ++i) slots_.push_back(make_place(layout_.slot_bytes()));
}

WeightStream::~WeightStream() {
  for (Place& slot : slots_) slot.tickets.clear();  // waits
}

PartSource& WeightStream::source() {
  if (!source_) source_ = make_source_(layout_, pool_);
  return *source_;
}

WeightStream::Place WeightStream::make_place(std::int64_t bytes) {
  return {.memory = device_.allocate({bytes}, DType::kU8, MemoryKind::kParameters)};
}

void WeightStream::read_in_place(std::unique_ptr<PartSource> source) {
  drop_coming();
  for (const auto& r : residents_)
    if (r) r->there = r->gathered = false;
  source_ = std::move(source);
  in_place_ = true;
}

// Where the unit begins, so that this rank's piece has the source's phase.
std::int64_t WeightStream::begin_of(const Place& place) const {
  const StreamedPart& part = layout_.parts[place.part];
  const std::int64_t piece = part.own.begin * size_of(layout_.dtype);
  const auto address =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(place.memory.data()) % kDiskBlock);
  const std::int64_t phase = source_ ? source_->phase(place.part) : 0;
  const std::int64_t shift = phase - piece - address;
  return (shift % kDiskBlock + kDiskBlock) % kDiskBlock;
}

Tensor WeightStream::whole_of(const Place& place) const {
  const std::int64_t whole = layout_.parts[place.part].whole;
  return place.memory.reinterpreted(begin_of(place), {whole}, layout_.dtype);
}

Tensor WeightStream::own_of(const Place& place) const {
  const Range own = layout_.parts[place.part].own;
  return whole_of(place).elements_at(own.begin, {own.size()});
}

void WeightStream::start_fill(Place& place, std::size_t part) {
  place.part = part;
  place.state = State::kFilling;
  try {
    request(place);
  } catch (...) {
    place.tickets.clear();  // waits
    place.state = State::kEmpty;
    throw;
  }
}

void WeightStream::request(Place& place) {
  PartSource& from = source();
  const StreamedPart& p = layout_.parts[place.part];
  const std::int64_t at = begin_of(place) + p.own.begin * size_of(layout_.dtype);
  Landing to{.device = &device_,
             .bytes = place.memory.elements_at(at, {place.memory.bytes() - at})};
  if (std::byte* const memory = device_.host_address(place.memory)) to.memory = memory + at;
  {
    const std::scoped_lock lock(meter_->mutex);
    if (meter_->under_way++ == 0) meter_->begin = now();
  }
  to.last = std::shared_ptr<void>(nullptr, [this, meter = meter_](void*) {
    const std::scoped_lock lock(meter->mutex);
    if (--meter->under_way == 0) meter->busy += now() - meter->begin;
  });
  totals_.bytes += p.own.size() * size_of(layout_.dtype);
  from.start(place.part, to, place.tickets);
}

// Throws what a request threw, once all have ended.
void WeightStream::finish_fill(Place& place) {
  std::exception_ptr failure;
  const double begin = now();
  for (IoTicket& ticket : place.tickets) {
    try {
      ticket.wait();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  place.tickets.clear();
  totals_.stalled += now() - begin;
  place.state = failure ? State::kEmpty : State::kFull;
  if (failure) std::rethrow_exception(failure);
}

// Whether the part of this use (in order_) stays in its slot since the use before.
bool WeightStream::stays_for(std::size_t use) const {
  const std::size_t n = order_.size();
  for (std::size_t back = 1; back <= 2 && back < n; ++back)
    if (order_[(use + n - back) % n] == order_[use]) return true;
  return false;
}

// Where it lies or comes, if it does; where it will be used last, if in several.
std::optional<std::size_t> WeightStream::slot_of(std::size_t part) const {
  for (auto i = coming_.rbegin(); i != coming_.rend(); ++i)
    if (slots_[*i].part == part) return *i;
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].state == State::kInUse && slots_[i].part == part) return i;
  return std::nullopt;
}

void WeightStream::fill_empty() {
  if (!fetching_ || order_.empty()) return;
  while (coming_.size() < 2 * slots_.size()) {  // what stays takes no slot: a bound of its own
    const std::size_t part = order_[next_];
    const std::optional<std::size_t> here = stays_for(next_) ? slot_of(part) : std::nullopt;
    const auto empty = std::find_if(slots_.begin(), slots_.end(),
                                    [](const Place& s) { return s.state == State::kEmpty; });
    if (!here && empty == slots_.end()) return;
    coming_.push_back(here ? *here : static_cast<std::size_t>(empty - slots_.begin()));
    try {
      if (!here) start_fill(*empty, part);
    } catch (...) {
      coming_.pop_back();
      throw;
    }
    next_ = (next_ + 1) % order_.size();
  }
}

void WeightStream::drop_coming() {
  for (const std::size_t i : coming_) {
    if (slots_[i].state == State::kInUse) continue;
    try {
      finish_fill(slots_[i]);
    } catch (...) {  // nobody asked for it
    }
    slots_[i].state = State::kEmpty;
  }
  coming_.clear();
}

void WeightStream::begin_with(std::size_t part) {
  drop_coming();
  if (std::find(order_.begin(), order_.end(), part) == order_.end()) order_ = {part};
  next_ = static_cast<std::size_t>(std::find(order_.begin(), order_.end(), part) - order_.begin());
  fill_empty();
}

void WeightStream::expect(const std::vector<int>& order) {
  ++totals_.passes;
  pass_begin_ = now();
  std::vector<std::size_t> streamed;
  for (const int part : order)
    if (const auto p = static_cast<std::size_t>(part); !resident(p)) streamed.push_back(p);
  if (streamed == order_) return fill_empty();
  drop_coming();
  order_ = std::move(streamed);
  next_ = 0;
  fill_empty();
}

WeightStream::Place& WeightStream::take_slot(std::size_t part) {
  if (!fetching_) {
    const auto free = std::find_if(slots_.begin(), slots_.end(),
                                   [](const Place& s) { return s.state == State::kEmpty; });
    check(free != slots_.end(), "offload.slots = ", slots_.size(),
          ": more parts are in use at a time");
    free->part = part;
    return *free;
  }
  if (coming_.empty() || slots_[coming_.front()].part != part) begin_with(part);
  check(!coming_.empty(), "offload.slots = ", slots_.size(),
        ": more parts of the weights are used at a time; use more slots");
  Place& slot = slots_[coming_.front()];
  coming_.pop_front();
  try {
    finish_fill(slot);
  } catch (...) {
    drop_coming();
    throw;
  }
  return slot;
}

void WeightStream::bring(Resident& kept) {
  if (in_place_) {
    start_fill(kept.place, kept.place.part);
    finish_fill(kept.place);
  } else {
    device_.kernels()->fill(whole_of(kept.place), 0.0);  // nobody wrote to it
  }
  kept.there = true;
}

WeightStream::Use WeightStream::acquire(std::size_t part) {
  Resident* const kept = resident(part);
  if (!kept) {
    Place& slot = take_slot(part);
    slot.state = State::kInUse;
    return {whole_of(slot), false};
  }
  if (!kept->there) bring(*kept);
  return {whole_of(kept->place), std::exchange(kept->gathered, true)};
}

void WeightStream::release(std::size_t part) {
  if (resident(part)) return;
  const auto slot = std::find_if(slots_.begin(), slots_.end(), [&](const Place& s) {
    return s.state == State::kInUse && s.part == part;
  });
  check(slot != slots_.end(), "offload: part ", part, " is let go, but in no slot");
  const auto number = static_cast<std::size_t>(slot - slots_.begin());
  const bool stays = std::find(coming_.begin(), coming_.end(), number) != coming_.end();
  slot->state = stays ? State::kFull : State::kEmpty;
  fill_empty();
}

void WeightStream::set_fetching(bool on) {
  drop_coming();
  fetching_ = on;
  next_ = 0;
}

StreamTimes WeightStream::totals() const {
  StreamTimes t = totals_;
  const std::scoped_lock lock(meter_->mutex);
  t.busy = meter_->busy + (meter_->under_way > 0 ? now() - meter_->begin : 0.0);
  return t;
}

void WeightStream::reset_totals() {
  totals_ = {};
  const std::scoped_lock lock(meter_->mutex);
  meter_->busy = 0;
  meter_->begin = now();
}

void WeightStream::flush() {
  if (source_) source_->flush();
}

void WeightStream::expect_present() {
  if (source_) source_->expect_present();
}

void WeightStream::update(const Work&) {
  fail("offload: weights that are streamed are only run, not updated");
}

void WeightStream::read(std::size_t part, std::size_t array, Range range, const Tensor& to) {
  check_access(shape_, "read", part, array, range, to);
  const std::int64_t size = size_of(layout_.dtype);
  if (Resident* const kept = resident(part); kept && !kept->there) bring(*kept);
  if (!resident(part)) return source().read(part, range.begin * size, to.bytes(), to.data());
  device_.download(own_of(resident(part)->place).elements_at(range.begin, {range.size()}),
                   to.data());
}

void WeightStream::write(std::size_t part, std::size_t array, Range range, const Tensor& from) {
  check_access(shape_, "write", part, array, range, from);
  drop_coming();
  Resident* const kept = resident(part);
  if (!kept)
    return source().write(part, range.begin * size_of(layout_.dtype), from.bytes(), from.data());
  if (!kept->there) bring(*kept);
  kept->gathered = false;
  device_.upload(from.data(), own_of(kept->place).elements_at(range.begin, {range.size()}));
}

}  // namespace trireme
