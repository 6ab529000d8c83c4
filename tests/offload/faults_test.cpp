// Every call of the file layer fails once: the right bytes or one sentence, nothing hangs, nothing
// is left on disk or in the ledger.
#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "offload/tiled_store.h"
#include "tests/offload/slow_files.h"
#include "tests/offload/store_model.h"
#include "tests/support/fault_count.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

using test::SlowFiles;
using test::StoreModel;
using testing::Fault;
using testing::FaultPlan;
using testing::FaultyFiles;
using testing::TemporaryFolder;

const TiledShape& small_shape() {
  static const TiledShape shape{
      {50, 0, 17}, {DType::kF32, DType::kBF16}, 16, MemoryKind::kOptimizer};
  return shape;
}

// Make a store, update it twice, compare, write and read a part. Throws what the disk throws.
void use_store(Files& files, const std::string& folder,
               const std::shared_ptr<MemoryLedger>& ledger) {
  const ScratchFolder scratch(files, {.folder = folder, .make = true});
  IoPool pool(2);
  const auto store =
      make_disk_store(small_shape(), ledger, scratch, pool, {.buffers = 3, .name = "s"});
  StoreModel model(small_shape());
  for (int step = 0; step < 2; ++step) model.update(*store, step);
  store->read_ahead(0);
  model.expect_equal(*store);
  std::mt19937_64 random(3);
  model.write(*store, 2, 1, {2, 17}, random);
  store->flush();
  store->expect_present();
  model.expect_equal(*store);
}

struct Tried {
  std::int64_t failed = 0, calls = 0;
};

// A fault at call 1, 2, ... until a run has no such call.
Tried try_every_call(Fault fault, bool sticky) {
  Tried tried;
  for (std::int64_t k = 1;; ++k) {
    SCOPED_TRACE(join("call ", k));
    const TemporaryFolder outer;
    FaultyFiles files({.fault = fault, .at = k, .sticky = sticky});
    const auto ledger = std::make_shared<MemoryLedger>();
    std::string said;
    try {
      use_store(files, outer / "offload", ledger);
    } catch (const Error& error) {
      said = error.what();
      EXPECT_EQ(said.find('\n'), std::string::npos) << said;
      EXPECT_NE(said.find(fault == Fault::kDiskFull ? "No space left" : "Input/output error"),
                std::string::npos)
          << said;
    }
    EXPECT_EQ(ledger->current(Tier::kHost) + ledger->current(Tier::kDisk), 0);
    // With a disk that has stopped working altogether nothing can be removed any more.
    if (!sticky) {
      EXPECT_FALSE(real_files()->exists(outer / "offload"));
    }
    if (files.calls() < k) {
      EXPECT_EQ(said, "");
      return tried;
    }
    if (files.fired() > 0) ++tried.calls;
    if (!said.empty()) ++tried.failed;
    if (::testing::Test::HasFailure()) return tried;
  }
}

TEST(OffloadFaults, ShortCountsAndInterruptionsAreHarmless) {
  for (const Fault fault : {Fault::kOneByte, Fault::kHalf, Fault::kInterrupted}) {
    const Tried tried = try_every_call(fault, false);
    EXPECT_GT(tried.calls, 20);
    EXPECT_EQ(tried.failed, 0);
  }
}

TEST(OffloadFaults, HalfOfEverythingIsHarmless) {
  const TemporaryFolder outer;
  FaultyFiles files({.fault = Fault::kHalf, .at = 1, .sticky = true});
  use_store(files, outer / "offload", std::make_shared<MemoryLedger>());
  EXPECT_GT(files.fired(), 100);
}

TEST(OffloadFaults, ErrorsAreOneSentenceAndLeaveNothing) {
  test::FaultCount count{.row = "R17", .what = "errors at every call of a store on disk"};
  for (const Fault fault : {Fault::kIoError, Fault::kDiskFull}) {
    const Tried once = try_every_call(fault, false);
    EXPECT_GT(once.calls, 30);
    EXPECT_GT(once.failed, 30);
    const Tried always = try_every_call(fault, true);
    EXPECT_GT(always.failed, 30);
    count.runs += once.calls + always.calls;
    count.injected += once.calls + always.calls;
  }
  count.lost = HasFailure() ? 1 : 0;
  test::tell(count);
}

// The disk is full before step 1: nothing was updated yet.
TEST(OffloadFaults, AFullDiskShowsAtConstruction) {
  const TemporaryFolder outer;
  const auto real = real_files();
  const auto ledger = std::make_shared<MemoryLedger>();
  // Calls so far: look, make the folder, open; the next reserves.
  FaultyFiles files({.fault = Fault::kDiskFull, .at = 5});
  IoPool pool(1);
  const ScratchFolder scratch(files, {.folder = outer.path()});
  const std::int64_t before = files.calls();
  EXPECT_EQ(before, 3);
  const std::string path = path_join(scratch.path(), "s");
  EXPECT_EQ(testing::sentence_of(
                [&] { make_disk_store(small_shape(), ledger, scratch, pool, {.name = "s"}); }),
            join("reserve ", TiledStore::home_bytes(small_shape(), Tier::kDisk), " bytes for ",
                 path, ": No space left on device"));
  EXPECT_FALSE(real->exists(path));
  EXPECT_EQ(ledger->current(Tier::kDisk), 0);
}

TEST(OffloadFaults, SlowDisksInAnyOrderGiveTheSameBits) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(join("seed ", seed));
    const TemporaryFolder outer;
    SlowFiles files(seed);
    const ScratchFolder scratch(files, {.folder = outer.path()});
    IoPool pool(1 + static_cast<int>(seed % 4));
    const auto store =
        make_disk_store(small_shape(), std::make_shared<MemoryLedger>(), scratch, pool,
                        {.buffers = 3 + static_cast<int>(seed % 3), .name = "s"});
    StoreModel model(small_shape());
    std::mt19937_64 random(seed);
    for (int step = 0; step < 3; ++step) model.update(*store, step);
    for (int i = 0; i < 60; ++i) model.random_call(*store, random);
    model.expect_equal(*store);
  }
}

}  // namespace
}  // namespace trireme
