// A rank's weights that are streamed through a few slots of device memory while a model that is
// only run goes over them again and again (ZeRO-Inference, arXiv 2207.00032 and 2303.06865).
//
// Parts (one per ZeRO unit) that fit the budget are resident: brought once, kept. The others pass
// through D slots, each of the largest one's size, allocated once. A slot is empty, filling, full
// or in use:
//
//   release -> empty -> filling (its requests run on the source's pool) -> full -> acquire: in use
//
// What comes next is known: expect() names the parts of a pass in the order of their use, and that
// order wraps over the end of a pass, so the first parts of the next one are coming while the last
// of this one compute. acquire() waits for what is not there yet. Parts that are asked for in
// another order are brought, too, only later. A part that is used again with at most one other in
// between stays in its slot: a table that the head of one pass and the embedding of the next one
// share is brought once a pass.
//
// Over data ranks a slot has room for the whole unit, and the source brings this rank's piece to
// its place; gathering is for the caller. As a TiledStore (one array) it is written to by whoever
// loads weights. All calls come from the rank's thread. After an Error of a request everything that
// was under way is dropped, and a later acquire() starts again.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "offload/part_source.h"
#include "offload/tiled_store.h"

namespace trireme {

// Elements of a unit's flat buffer: all, and those at home on this rank.
struct StreamedPart {
  std::int64_t whole = 0;
  Range own;
  bool resident = false;
};

struct WeightStreamShape {
  std::vector<StreamedPart> parts;
  DType dtype = DType::kF32;
  Tier home = Tier::kHost;
  int slots = 2;

  // Of the device: a slot, all slots, a resident part, all of those.
  std::int64_t slot_bytes() const;
  std::int64_t slots_bytes() const;  // 0 if nothing is streamed
  std::int64_t resident_bytes(std::size_t part) const;
  std::int64_t residents_bytes() const;
  std::int64_t device_bytes() const { return slots_bytes() + residents_bytes(); }
  // Of the source, for each part: its own bytes, or 0 where a resident one needs none there.
  std::vector<std::int64_t> source_bytes() const;
};

// Largest parts first, among equals the first: those become resident whose bytes together are at
// most `budget`.
void choose_residents(WeightStreamShape& shape, std::int64_t budget);
// The most that become resident while these and the slots take at most `total` bytes. False if not
// even the slots do.
bool choose_residents_within(WeightStreamShape& shape, std::int64_t total);

// Since the last reset. Seconds are of the clock given.
struct StreamTimes {
  std::int64_t passes = 0;
  std::int64_t bytes = 0;  // brought
  double stalled = 0;      // waiting for parts
  double busy = 0;         // with requests under way
  double passing = 0;      // from expect() to pass_ended()
};

class WeightStream final : public TiledStore {
 public:
  // Of shape.source_bytes(); called when the first part is written or read, unless all are read in
  // place.
  using MakeSource = std::function<std::unique_ptr<PartSource>(const WeightStreamShape&, IoPool&)>;
  // Allocates slots and residents, as parameters.
  WeightStream(Backend& device, WeightStreamShape shape, int threads, MakeSource source);
  ~WeightStream() override;

  const WeightStreamShape& streamed() const { return layout_; }
  IoPool& pool() { return pool_; }
  // All parts lie there, residents too, which it brings when they are first used. Nothing is loaded
  // then. Before anything was used.
  void read_in_place(std::unique_ptr<PartSource> source);
  bool reads_in_place() const { return in_place_; }

  // A pass begins that uses these parts in this order; residents in it do not matter.
  void expect(const std::vector<int>& order);
  void pass_ended() { totals_.passing += now() - pass_begin_; }
  struct Use {
    Tensor whole;           // elements of the unit's flat buffer
    bool gathered = false;  // all of it is there; else this rank's piece
  };
  // Until release(). A part may be in use once at a time. Throws Error if all slots are in use, or
  // what a request threw.
  Use acquire(std::size_t part);
  void release(std::size_t part);

  // Without: acquire() gives what lies in a slot, at once: to measure computing alone.
  void set_fetching(bool on);
  StreamTimes totals() const;
  void reset_totals();

  Tier tier() const override { return layout_.home; }
  void update(const Work& work) override;  // Error
  void read(std::size_t part, std::size_t array, Range range, const Tensor& to) override;
  void write(std::size_t part, std::size_t array, Range range, const Tensor& from) override;
  void flush() override;
  void read_ahead(std::size_t) override {}
  void expect_present() override;

 private:
  enum class State : std::uint8_t { kEmpty, kFilling, kFull, kInUse };
  // Memory of a unit, and what lies in it.
  struct Place {
    State state = State::kEmpty;
    std::size_t part = 0;
    Tensor memory;  // U8
    std::vector<IoTicket> tickets;
  };
  struct Resident {
    Place place;
    bool there = false;  // this rank's piece
    bool gathered = false;
  };
  PartSource& source();
  Place make_place(std::int64_t bytes);
  std::int64_t begin_of(const Place& place) const;  // of the unit, in the place's memory
  Tensor whole_of(const Place& place) const;
  Tensor own_of(const Place& place) const;
  void start_fill(Place& place, std::size_t part);
  void request(Place& place);
  void finish_fill(Place& place);
  void fill_empty();
  bool stays_for(std::size_t use) const;
  std::optional<std::size_t> slot_of(std::size_t part) const;
  void drop_coming();
  void begin_with(std::size_t part);
  Place& take_slot(std::size_t part);
  void bring(Resident& kept);
  Resident* resident(std::size_t part) const { return residents_[part].get(); }

  Backend& device_;
  WeightStreamShape layout_;
  IoPool pool_;
  MakeSource make_source_;
  std::unique_ptr<PartSource> source_;
  std::vector<std::unique_ptr<Resident>> residents_;  // by part; null: streamed
  std::vector<Place> slots_;
  // Slots that fill or are full, in the order of their use; and one that is in use, if what lies in
  // it stays for a later one.
  std::deque<std::size_t> coming_;
  std::vector<std::size_t> order_;  // of a pass, streamed parts only
  std::size_t next_ = 0;            // in it: what is brought next
  bool fetching_ = true, in_place_ = false;
  StreamTimes totals_;
  double pass_begin_ = 0;
  struct Meter;
  std::shared_ptr<Meter> meter_;
};

}  // namespace trireme
