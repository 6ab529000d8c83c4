// Weights through slots: every source, number of slots and set of residents gives the bytes that
// were put there, in any order, over the end of passes, from files that are slow or fail.
#include "offload/weight_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "framework/base/error.h"
#include "framework/base/random.h"
#include "tests/offload/slow_files.h"
#include "tests/support/fault_count.h"
#include "tests/support/faulty_files.h"
#include "tests/support/guarded_backend.h"

namespace trireme::test {
namespace {

using testing::Fault;
using testing::FaultPlan;
using testing::FaultyFiles;
using testing::TemporaryFolder;

enum class Kind : std::uint8_t { kMemory, kCopy, kFiles };

// Sizes in elements; the third is longer than a request.
const std::vector<std::int64_t> kWhole = {96, 4096, (kRequestBytes / 4) + 4128, 16, 9000};
const std::vector<int> kOrder = {0, 1, 2, 3, 4};

float value(std::size_t part, std::int64_t element) {
  return static_cast<float>(part * 100) + static_cast<float>(element % 89);
}

WeightStreamShape shape_of(int slots, std::int64_t budget, int rank = 0, int ranks = 1) {
  WeightStreamShape shape{.dtype = DType::kF32, .slots = slots};
  for (const std::int64_t whole : kWhole)
    shape.parts.push_back({whole, {whole / ranks * rank, whole / ranks * (rank + 1)}});
  choose_residents(shape, budget);
  return shape;
}

// One file with the parts' elements in two halves each, second halves first, behind a header of any
// length; every third element of what lies between belongs to nobody.
std::vector<std::vector<FileExtent>> write_file(Files& files, const std::string& path,
                                                const WeightStreamShape& shape,
                                                std::int64_t header) {
  std::string bytes(static_cast<std::size_t>(header), '#');
  std::vector<std::vector<FileExtent>> extents;
  for (std::size_t p = 0; p < shape.parts.size(); ++p) {
    const Range own = shape.parts[p].own;
    const std::int64_t half = own.size() / 2;
    std::vector<FileExtent>& all = extents.emplace_back();
    for (const Range some : {Range{half, own.size()}, Range{0, half}}) {
      all.push_back({0, std::ssize(bytes), some.size() * 4, some.begin * 4});
      for (std::int64_t i = some.begin; i < some.end; ++i) {
        const float x = value(p, own.begin + i);
        bytes.append(reinterpret_cast<const char*>(&x), 4);
      }
    }
    std::swap(all[0], all[1]);
    bytes += "some more bytes!";
  }
  const auto file = files.open(path, OpenMode::kCreate);
  file->write(bytes.data(), std::ssize(bytes), 0);
  return extents;
}

struct Setting {
  Kind kind = Kind::kMemory;
  int slots = 2;
  std::int64_t budget = 0;
  std::int64_t header = 0;
  int rank = 0, ranks = 1;
  bool guarded = false;
};

// A stream with its weights in it.
struct Streamed {
  Streamed(const Setting& s, Files& files, const std::string& folder)
      : ledger(std::make_shared<MemoryLedger>()),
        backend(s.guarded ? make_guarded_backend(ledger) : make_reference_backend(ledger)),
        scratch(files, {.folder = folder}) {
    WeightStreamShape shape = shape_of(s.slots, s.budget, s.rank, s.ranks);
    shape.home = s.kind == Kind::kMemory ? Tier::kHost : Tier::kDisk;
    const auto make = [this, s](const WeightStreamShape& all, IoPool& pool) {
      return s.kind == Kind::kMemory ? parts_in_memory(all.source_bytes(), ledger, pool)
                                     : parts_in_copy(all.source_bytes(), ledger, scratch, pool);
    };
    stream = std::make_unique<WeightStream>(*backend, shape, 3, make);
    if (s.kind == Kind::kFiles) {
      in_place(files, folder, s.header);
      return;
    }
    for (std::size_t p = 0; p < shape.parts.size(); ++p) {
      const Range own = shape.parts[p].own;
      std::vector<float> values;
      for (std::int64_t i = own.begin; i < own.end; ++i) values.push_back(value(p, i));
      const Tensor x = allocate_on_host(ledger, {own.size()}, DType::kF32, MemoryKind::kWorkspace);
      std::copy(values.begin(), values.end(), x.as<float>());
      stream->write(p, 0, {0, own.size()}, x);
    }
    stream->flush();
  }
  void in_place(Files& files, const std::string& folder, std::int64_t header) {
    std::vector<std::int64_t> sizes;
    for (const StreamedPart& part : stream->streamed().parts) sizes.push_back(part.own.size() * 4);
    const std::string path = folder + "/model";
    const auto real = real_files();
    auto extents = write_file(*real, path, stream->streamed(), header);
    stream->read_in_place(
        parts_in_files(sizes, std::move(extents), {path}, files, ledger, stream->pool()));
  }

  std::int64_t wrong(std::size_t part, const Tensor& whole) const {
    const Range own = stream->streamed().parts[part].own;
    std::vector<float> found(static_cast<std::size_t>(own.size()));
    backend->download(whole.elements_at(own.begin, {own.size()}), found.data());
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < own.size(); ++i)
      count += found[static_cast<std::size_t>(i)] != value(part, own.begin + i);
    return count;
  }
  std::int64_t pass(const std::vector<int>& order) {
    std::int64_t count = 0;
    stream->expect(order);
    for (const int p : order) {
      const auto part = static_cast<std::size_t>(p);
      const WeightStream::Use use = stream->acquire(part);
      EXPECT_EQ(use.whole.elements(), kWhole[part]);
      count += wrong(part, use.whole);
      stream->release(part);
    }
    return count;
  }

  std::shared_ptr<MemoryLedger> ledger;
  std::unique_ptr<Backend> backend;
  ScratchFolder scratch;
  std::unique_ptr<WeightStream> stream;
};

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const Kind kind : {Kind::kMemory, Kind::kCopy, Kind::kFiles})
    for (const int slots : {2, 3, 5})
      for (const std::int64_t budget :
           {std::int64_t{0}, std::int64_t{60000}, std::int64_t{1} << 40})
        for (const bool guarded : {false, true}) {
          Setting s{.kind = kind, .slots = slots, .budget = budget, .guarded = guarded};
          s.header = slots * 1048 + (budget > 0 ? 8 : 3);
          s.ranks = slots == 3 ? 2 : 1;
          s.rank = s.ranks - 1;
          all.push_back(s);
        }
  return all;
}

TEST(WeightStream, EverySourceGivesItsBytesAndTakesWhatIsSaid) {
  const auto files = real_files();
  for (const Setting& s : settings()) {
    SCOPED_TRACE(join("source ", static_cast<int>(s.kind), ", slots ", s.slots, ", budget ",
                      s.budget, s.guarded ? ", guarded" : ""));
    const TemporaryFolder folder;
    Streamed all(s, *files, folder.path());
    const std::int64_t device = all.stream->streamed().device_bytes();
    EXPECT_EQ(all.ledger->current(Tier::kDevice), device);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(all.pass(kOrder), 0);
    EXPECT_EQ(all.pass({2, 0, 4, 1, 1, 3}), 0);
    EXPECT_EQ(all.pass({1, 2}), 0);
    EXPECT_EQ(all.pass(kOrder), 0);
    EXPECT_EQ(all.ledger->peak(Tier::kDevice), device);
    all.stream.reset();
    EXPECT_EQ(all.ledger->current(Tier::kDevice), 0);
    EXPECT_EQ(all.ledger->current(Tier::kHost), 0);
    EXPECT_EQ(all.ledger->current(Tier::kDisk), 0);
  }
}

TEST(WeightStream, BringsTheNextPassWhileThisOneEnds) {
  const auto files = real_files();
  const TemporaryFolder folder;
  Streamed all({.kind = Kind::kMemory, .slots = 3}, *files, folder.path());
  EXPECT_EQ(all.pass(kOrder), 0);
  // A pass, and the two parts of the next one that have room.
  const std::int64_t one = std::accumulate(kWhole.begin(), kWhole.end(), std::int64_t{0}) * 4;
  EXPECT_EQ(all.stream->totals().bytes, one + (kWhole[0] + kWhole[1] + kWhole[2]) * 4);
  EXPECT_EQ(all.pass(kOrder), 0);
  EXPECT_EQ(all.stream->totals().bytes, 2 * one + (kWhole[0] + kWhole[1] + kWhole[2]) * 4);
  EXPECT_EQ(all.stream->totals().passes, 2);
}

// As a table that head and embedding share, with the norm of the head beside it, or alone.
TEST(WeightStream, APartThatIsSoonUsedAgainStaysInItsSlot) {
  const auto files = real_files();
  for (const std::vector<int>& order :
       {std::vector<int>{0, 3, 1, 2, 0, 4}, {0, 1, 2, 0}, {0, 0, 4}, {0, 4, 0}})
    for (const int slots : {2, 3, 5, 8}) {
      SCOPED_TRACE(join("slots ", slots, ", ", order.size(), " uses"));
      const TemporaryFolder folder;
      Streamed all({.kind = Kind::kMemory, .slots = slots}, *files, folder.path());
      std::int64_t once = 0;
      for (std::size_t p = 0; p < kWhole.size(); ++p)
        if (std::find(order.begin(), order.end(), static_cast<int>(p)) != order.end())
          once += kWhole[p] * 4;
      for (int i = 0; i < 3; ++i) EXPECT_EQ(all.pass(order), 0);
      const std::int64_t before = all.stream->totals().bytes;
      for (int i = 0; i < 5; ++i) EXPECT_EQ(all.pass(order), 0);
      // Part 0 once a pass at most, where it is used twice; nothing again where it never leaves.
      EXPECT_LE(all.stream->totals().bytes - before, 5 * once);
      EXPECT_GE(all.stream->totals().bytes - before, 5 * (once - kWhole[0] * 4));
      EXPECT_EQ(all.pass({1, 2}), 0);  // another order, while it stays
      EXPECT_EQ(all.pass(order), 0);
    }
}

TEST(WeightStream, ResidentsAreTheLargestThatFit) {
  WeightStreamShape shape = shape_of(2, 0);
  EXPECT_EQ(shape.residents_bytes(), 0);
  EXPECT_EQ(shape.slot_bytes(), kWhole[2] * 4 + 8192);
  choose_residents(shape, kWhole[4] * 4 + 8192 + kWhole[0] * 4 + 8192);
  EXPECT_FALSE(shape.parts[2].resident);  // larger than all of the budget
  EXPECT_TRUE(shape.parts[4].resident);
  EXPECT_FALSE(shape.parts[1].resident);
  EXPECT_TRUE(shape.parts[0].resident);
  EXPECT_FALSE(choose_residents_within(shape, 100));
  EXPECT_TRUE(choose_residents_within(shape, 2 * (kWhole[2] * 4 + 8192)));
  EXPECT_TRUE(choose_residents_within(shape, std::int64_t{1} << 40));
  EXPECT_EQ(shape.slots_bytes(), 0);

  WeightStreamShape even{.dtype = DType::kBF16, .slots = 2};
  for (int i = 0; i < 5; ++i) even.parts.push_back({4096, {0, 4096}});
  EXPECT_TRUE(choose_residents_within(even, 4 * even.resident_bytes(0) + 5));
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(even.parts[i].resident, i < 2);
  EXPECT_EQ(even.device_bytes(), 4 * even.resident_bytes(0));
}

TEST(WeightStream, MorePartsAtATimeThanSlotsAreRefused) {
  const auto files = real_files();
  const TemporaryFolder folder;
  Streamed all({}, *files, folder.path());
  all.stream->expect(kOrder);
  all.stream->acquire(0);
  all.stream->acquire(1);
  EXPECT_EQ(testing::sentence_of([&] { all.stream->acquire(2); }),
            "offload.slots = 2: more parts of the weights are used at a time; use more slots");
}

// Random orders, several parts in use at a time, files that dawdle: what is in use never changes.
TEST(WeightStream, RandomUseOfSlowFiles) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const RngKey key = key_from_seed(seed);
    std::uint64_t draws = 0;
    const auto draw = [&](std::uint32_t below) { return random_word(key, draws++) % below; };
    SlowFiles files(seed);
    const TemporaryFolder folder;
    Setting s{.kind = seed % 2 == 0 ? Kind::kCopy : Kind::kFiles,
              .slots = static_cast<int>(2 + draw(4)),
              .budget = draw(2) == 0 ? 0 : 40000,
              .header = static_cast<std::int64_t>(draw(9000))};
    Streamed all(s, files, folder.path());
    for (int pass = 0; pass < 4; ++pass) {
      std::vector<int> order = kOrder;
      for (std::size_t i = order.size(); i-- > 1;) std::swap(order[i], order[draw(i + 1)]);
      all.stream->expect(order);
      std::vector<std::pair<std::size_t, Tensor>> held;
      const auto let_go = [&](std::size_t i) {
        EXPECT_EQ(all.wrong(held[i].first, held[i].second), 0);
        all.stream->release(held[i].first);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
      };
      for (const int p : order) {
        while (!held.empty() && (std::ssize(held) == s.slots || draw(2) == 0))
          let_go(draw(static_cast<std::uint32_t>(held.size())));
        const auto part = static_cast<std::size_t>(p);
        held.emplace_back(part, all.stream->acquire(part).whole);
        EXPECT_EQ(all.wrong(part, held.back().second), 0);
      }
      while (!held.empty()) let_go(0);
    }
  }
}

// Every call of the file layer fails once: a sentence, and the next passes are right again.
TEST(WeightStream, AReadThatFailsIsToldAndNothingIsLost) {
  FaultCount count{.row = "R17", .what = "reads of streamed weights that fail"};
  std::int64_t sentences = 0;
  for (const Kind kind : {Kind::kCopy, Kind::kFiles})
    for (const Fault fault : {Fault::kIoError, Fault::kHalf, Fault::kInterrupted})
      for (std::int64_t at = 1;; ++at) {
        FaultyFiles files({.fault = fault, .at = at});
        const TemporaryFolder folder;
        std::string told;
        std::int64_t wrong = 0;
        const auto ledger = [&]() -> std::shared_ptr<MemoryLedger> {
          std::shared_ptr<MemoryLedger> counted;
          try {
            Streamed all({.kind = kind, .slots = 3, .budget = 40000, .header = 77}, files,
                         folder.path());
            counted = all.ledger;
            for (int pass = 0; pass < 2; ++pass) try {
                wrong += all.pass(kOrder);
              } catch (const Error& error) {
                told = error.what();
                wrong += all.pass(kOrder);
              }
          } catch (const Error& error) {
            told = error.what();
          }
          return counted;
        }();
        if (files.fired() == 0) break;
        ++count.runs;
        count.injected += files.fired();
        const bool whole = wrong == 0 && (!ledger || ledger->current(Tier::kDevice) == 0);
        count.lost += !whole;
        sentences += !told.empty();
        EXPECT_TRUE(whole) << told;
      }
  EXPECT_GT(sentences, 10);  // what nobody came to use is not told
  tell(count);
}

// The planted bug: a disk that gives another place's bytes. Of a copy the hash tells; in place the
// test's own comparison must.
class Misdirecting final : public testing::PassedFiles {
 public:
  Misdirecting() : PassedFiles(real_files()) {}
  Outcome raw_open(const std::string& path, OpenMode mode, std::unique_ptr<File>& into) override {
    std::unique_ptr<File> right;
    const Outcome outcome = inner().raw_open(path, mode, right);
    if (outcome.error == 0) into = std::make_unique<Wrong>(std::move(right));
    return outcome;
  }

 private:
  class Wrong final : public File {
   public:
    explicit Wrong(std::unique_ptr<File> inner) : File(inner->path()), inner_(std::move(inner)) {}
    Outcome raw_read(void* into, std::int64_t bytes, std::int64_t offset) override {
      return inner_->raw_read(into, bytes, offset == 0 ? kDiskBlock : offset);
    }
    Outcome raw_write(const void* from, std::int64_t bytes, std::int64_t offset) override {
      return inner_->raw_write(from, bytes, offset);
    }
    Outcome raw_append(const void* from, std::int64_t bytes) override {
      return inner_->raw_append(from, bytes);
    }
    Outcome raw_size() override { return inner_->raw_size(); }
    Outcome raw_truncate(std::int64_t bytes) override { return inner_->raw_truncate(bytes); }
    Outcome raw_sync() override { return inner_->raw_sync(); }
    Outcome raw_preallocate(std::int64_t bytes) override { return inner_->raw_preallocate(bytes); }
    Outcome raw_map(std::int64_t at, std::int64_t bytes, std::unique_ptr<Mapping>& into) override {
      return inner_->raw_map(at, bytes, into);
    }
    Outcome raw_close() override { return inner_->raw_close(); }

   private:
    std::unique_ptr<File> inner_;
  };
};

TEST(WeightStream, BytesOfAnotherPlaceAreNoticed) {
  Misdirecting files;
  const TemporaryFolder folder, other;
  Streamed copy({.kind = Kind::kCopy}, files, folder.path());
  const std::string told = testing::sentence_of([&] { copy.pass(kOrder); });
  EXPECT_NE(told.find("the disk did not keep them"), std::string::npos) << told;
  Streamed in_place({.kind = Kind::kFiles, .header = 8}, files, other.path());
  EXPECT_GT(in_place.pass(kOrder), 0);
}

TEST(WeightStream, AFileThatWasCutIsTold) {
  const auto files = real_files();
  const TemporaryFolder folder;
  Streamed all({.kind = Kind::kFiles}, *files, folder.path());
  files->open(folder / "model", OpenMode::kReadWrite)->truncate(5000);
  const std::string told = testing::sentence_of([&] { all.pass(kOrder); });
  EXPECT_NE(told.find("was it changed while it was in use?"), std::string::npos) << told;
}

TEST(WeightStream, ComputingAloneTakesWhatLiesInTheSlots) {
  const auto files = real_files();
  const TemporaryFolder folder;
  Streamed all({.slots = 2}, *files, folder.path());
  EXPECT_EQ(all.pass(kOrder), 0);
  all.stream->set_fetching(false);
  all.stream->reset_totals();
  all.pass(kOrder);
  EXPECT_EQ(all.stream->totals().bytes, 0);
  all.stream->set_fetching(true);
  EXPECT_EQ(all.pass(kOrder), 0);
}

}  // namespace
}  // namespace trireme::test
