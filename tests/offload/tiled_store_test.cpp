// Host and disk stores against plain vectors: the same bits for any tile size, tier and timing.
#include "offload/tiled_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "framework/base/error.h"
#include "tests/offload/store_model.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

using test::StoreModel;
using testing::sentence_of;
using testing::TemporaryFolder;

constexpr std::int64_t kWhole = std::int64_t{1} << 60;

// A place on disk with all that a store needs.
struct Disk {
  explicit Disk(int threads = 2) : pool(threads) {}
  std::unique_ptr<TiledStore> store(const TiledShape& shape, int buffers = 3) {
    return make_disk_store(shape, ledger, scratch, pool, {.buffers = buffers, .name = "states"});
  }
  TemporaryFolder outer;
  std::unique_ptr<Files> files = real_files();
  std::shared_ptr<MemoryLedger> ledger = std::make_shared<MemoryLedger>();
  ScratchFolder scratch{*files, {.folder = outer.path()}};
  IoPool pool;
};

TiledShape shape_of(std::vector<std::int64_t> parts, std::int64_t tile) {
  return {std::move(parts), {DType::kF32, DType::kF64, DType::kBF16}, tile, MemoryKind::kOptimizer};
}

TEST(TiledStore, UpdatesEqualPlainVectors) {
  for (const std::int64_t tile : {std::int64_t{1}, std::int64_t{7}, std::int64_t{64}, kWhole}) {
    for (const int buffers : {0, 3, 4, 7}) {  // 0: the host
      SCOPED_TRACE(join("tile ", tile, ", buffers ", buffers));
      Disk disk;
      const TiledShape shape = shape_of({0, 65, 1, 0, 130, 7}, tile);
      const auto store =
          buffers == 0 ? make_host_store(shape, disk.ledger) : disk.store(shape, buffers);
      StoreModel model(shape);
      for (int step = 0; step < 4; ++step) model.update(*store, step);
      model.expect_equal(*store);
    }
  }
}

// A million and three bytes, and shards around a sector: nothing is cut off or mixed up.
TEST(TiledStore, OddShardsComeBackByteExact) {
  Disk disk;
  const TiledShape bytes{{1'000'003}, {DType::kU8}, 1 << 18, MemoryKind::kParameters};
  const TiledShape shards{{1, 511, 513}, {DType::kF32, DType::kBF16}, 512, MemoryKind::kOptimizer};
  for (const TiledShape& shape : {bytes, shards}) {
    const auto store = disk.store(shape);
    StoreModel model(shape);
    std::mt19937_64 random(1);
    for (std::size_t part = 0; part < shape.parts.size(); ++part)
      for (std::size_t array = 0; array < shape.arrays.size(); ++array)
        model.write(*store, part, array, {0, shape.parts[part]}, random);
    model.expect_equal(*store);
    model.update(*store, 1);
    model.expect_equal(*store);
  }
}

TEST(TiledStore, RandomReadsAndWritesEqualAModel) {
  for (const bool on_disk : {false, true}) {
    Disk disk;
    const TiledShape shape = shape_of({33, 0, 100, 5}, 16);
    const auto store = on_disk ? disk.store(shape) : make_host_store(shape, disk.ledger);
    StoreModel model(shape);
    std::mt19937_64 random(7);
    for (int i = 0; i < 1500; ++i) {
      SCOPED_TRACE(join(on_disk ? "disk" : "host", ", call ", i));
      model.random_call(*store, random);
      if (::testing::Test::HasFailure()) return;
    }
    model.expect_equal(*store);
  }
}

TEST(TiledStore, MemoryIsWhatTheFormulasSay) {
  for (const std::int64_t tile : {std::int64_t{7}, std::int64_t{64}, kWhole}) {
    const TiledShape shape = shape_of({0, 65, 1, 1300}, tile);
    Disk disk;
    MemoryLedger& ledger = *disk.ledger;
    {
      const auto host = make_host_store(shape, disk.ledger);
      EXPECT_EQ(ledger.entry(Tier::kHost, MemoryKind::kOptimizer).current, 1366 * 14);
      EXPECT_EQ(TiledStore::home_bytes(shape, Tier::kHost), 1366 * 14);
      EXPECT_EQ(TiledStore::buffer_bytes(shape, Tier::kHost, 5), 0);
    }
    {
      const auto store = disk.store(shape, 5);
      const std::int64_t home = TiledStore::home_bytes(shape, Tier::kDisk);
      EXPECT_EQ(ledger.current(Tier::kDisk), home);
      EXPECT_EQ(ledger.entry(Tier::kDisk, MemoryKind::kOptimizer).current, home);
      EXPECT_EQ(disk.files->status(path_join(disk.scratch.path(), "states")).bytes, home);
      const std::int64_t buffers = TiledStore::buffer_bytes(shape, Tier::kDisk, 5);
      EXPECT_EQ(ledger.current(Tier::kHost), buffers);
      EXPECT_EQ(ledger.entry(Tier::kHost, MemoryKind::kCommunication).current, buffers);
      StoreModel model(shape);
      for (int step = 0; step < 3; ++step) model.update(*store, step);
      EXPECT_EQ(ledger.peak(Tier::kHost), std::max(buffers, std::int64_t{1366 * 14}));

      TiledShape part = shape;
      part.parts = {1300};
      store->read_ahead(3);
      store->read_ahead(3);
      EXPECT_EQ(ledger.current(Tier::kHost), buffers + TiledStore::home_bytes(part, Tier::kDisk));
      model.expect_equal(*store);
      EXPECT_EQ(ledger.current(Tier::kHost), buffers);
    }
    EXPECT_EQ(ledger.current(Tier::kHost) + ledger.current(Tier::kDisk), 0);
    EXPECT_TRUE(disk.files->list(disk.scratch.path()).empty());
  }
}

TEST(TiledStore, HostTilesAreViewsOfHome) {
  const auto store = make_host_store(shape_of({10}, 4), std::make_shared<MemoryLedger>());
  std::vector<const void*> first, second;
  store->update([&](const Tile& tile) { first.push_back(tile.arrays[0].data()); });
  store->update([&](const Tile& tile) { second.push_back(tile.arrays[0].data()); });
  EXPECT_EQ(first, second);
  EXPECT_EQ(static_cast<const float*>(first[0]) + 4, first[1]);
}

TEST(TiledStore, CountsSecondsAndBytes) {
  Disk disk;
  const TiledShape shape = shape_of({100}, 10);
  const auto store = disk.store(shape);
  double seconds = 0;
  store->set_clock([&] { return seconds; });
  const auto work = [&](const Tile&) { seconds += 1; };
  store->update(work);
  EXPECT_EQ(store->times().bytes_read, 0);  // never written: zeros
  store->update(work);
  EXPECT_EQ(store->times().bytes_read, 10 * 4096);
  EXPECT_EQ(store->times().bytes_written, 20 * 4096);
  EXPECT_EQ(store->times().working, 20);
  EXPECT_EQ(store->times().total, 20);
  EXPECT_EQ(store->times().waiting_reads + store->times().waiting_writes, 0);
  store->reset_times();
  EXPECT_EQ(store->times().total, 0);
}

TEST(TiledStore, AFailedUpdateEndsTheStore) {
  for (const bool on_disk : {false, true}) {
    Disk disk;
    const TiledShape shape = shape_of({100}, 10);
    const auto store = on_disk ? disk.store(shape) : make_host_store(shape, disk.ledger);
    int calls = 0;
    EXPECT_EQ(sentence_of([&] {
                store->update([&](const Tile&) { check(++calls < 5, "no more of this"); });
              }),
              "no more of this");
    EXPECT_EQ(calls, 5);
    const std::string torn =
        "offload: this store cannot be used during or after an update that failed: its tiles are "
        "of two steps";
    EXPECT_EQ(sentence_of([&] { store->update([](const Tile&) {}); }), torn);
    EXPECT_EQ(sentence_of([&] { store->flush(); }), torn);
    const Tensor one = allocate_on_host(disk.ledger, {1}, DType::kF32, MemoryKind::kOptimizer);
    EXPECT_EQ(sentence_of([&] { store->read(0, 0, {0, 1}, one); }), torn);
  }
}

TEST(TiledStore, WhatIsTooSmallOrWrongIsNamed) {
  Disk disk;
  EXPECT_EQ(sentence_of([&] { disk.store(shape_of({10}, 4), 2); }),
            "offload: states has 2 buffers; at least 3 are needed: one is read, one worked on, one "
            "written");
  EXPECT_EQ(sentence_of([&] { disk.store(shape_of({10}, 0)); }),
            "offload: a tile of 0 elements; at least 1 is needed");
  EXPECT_EQ(sentence_of([&] { make_host_store(shape_of({-1}, 4), disk.ledger); }),
            "offload: part 0 has -1 elements");
  EXPECT_EQ(sentence_of([&] {
              make_host_store({{3}, {}}, disk.ledger);
            }),
            "offload: a store without arrays");
  const auto store = disk.store(shape_of({10}, 4));
  const Tensor two = allocate_on_host(disk.ledger, {2}, DType::kF32, MemoryKind::kOptimizer);
  EXPECT_EQ(sentence_of([&] {
              store->read(0, 0, {9, 11}, two);
            }),
            "offload: read of elements 9 to 11 of part 0, which has 10");
  EXPECT_EQ(sentence_of([&] {
              store->write(0, 1, {0, 2}, two);
            }),
            "offload: write of 2 elements of f64, but the tensor has 2 of f32");
  EXPECT_EQ(sentence_of([&] {
              store->read(1, 0, {0, 2}, two);
            }),
            "offload: read of part 1, array 0; the store has 1 and 3");
  disk.ledger->set_limit(Tier::kDisk, disk.ledger->current(Tier::kDisk) + 5000);
  EXPECT_NE(sentence_of([&] {
              make_disk_store(shape_of({10}, 4), disk.ledger, disk.scratch, disk.pool,
                              {.name = "more"});
            }).find("on the disk tier"),
            std::string::npos);
  EXPECT_FALSE(disk.files->exists(path_join(disk.scratch.path(), "more")));
}

TEST(TiledStore, AFolderRemovedUnderneathIsNoticed) {
  Disk disk;
  const auto store = disk.store(shape_of({10}, 4));
  store->expect_present();
  disk.files->remove_all(disk.scratch.path());
  EXPECT_EQ(sentence_of([&] { store->expect_present(); }),
            path_join(disk.scratch.path(), "states") +
                " is no longer there: somebody removed it while the run was using it");
}

TEST(TiledStore, NothingToKeepIsLegal) {
  Disk disk;
  for (const bool on_disk : {false, true}) {
    const TiledShape shape = shape_of({0, 0}, 4);
    const auto store = on_disk ? disk.store(shape) : make_host_store(shape, disk.ledger);
    store->update([](const Tile&) { FAIL(); });
    store->read_ahead(1);
    const Tensor none = allocate_on_host(disk.ledger, {0}, DType::kF32, MemoryKind::kOptimizer);
    store->read(1, 0, {0, 0}, none);
    store->write(1, 0, {0, 0}, none);
    store->flush();
    store->expect_present();
  }
  EXPECT_EQ(disk.ledger->current(Tier::kHost), 0);
}

}  // namespace
}  // namespace trireme
