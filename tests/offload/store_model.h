// A TiledStore's oracle: plain vectors of bytes, changed in the same way.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "offload/tiled_store.h"

namespace trireme::test {

class StoreModel {
 public:
  explicit StoreModel(const TiledShape& shape) : shape_(shape) {
    for (const std::int64_t elements : shape.parts) {
      auto& part = bytes_.emplace_back();
      for (const DType dtype : shape.arrays)
        part.emplace_back(static_cast<std::size_t>(elements * size_of(dtype)), std::uint8_t{0});
    }
  }

  // Every element becomes a function of itself, its place and the step; checks order and views.
  void update(TiledStore& store, int step) {
    std::vector<std::int64_t> seen(shape_.parts.size(), 0);
    std::size_t last = 0;
    store.update([&](const Tile& tile) {
      ASSERT_GE(tile.part, last);
      last = tile.part;
      ASSERT_EQ(tile.range.begin, seen[tile.part]);
      ASSERT_GT(tile.range.size(), 0);
      ASSERT_LE(tile.range.size(), shape_.tile);
      seen[tile.part] = tile.range.end;
      ASSERT_EQ(tile.arrays.size(), shape_.arrays.size());
      for (std::size_t a = 0; a < shape_.arrays.size(); ++a) {
        ASSERT_EQ(tile.arrays[a].elements(), tile.range.size());
        ASSERT_EQ(tile.arrays[a].dtype(), shape_.arrays[a]);
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(tile.arrays[a].data()) % alignment(store), 0u);
        const std::int64_t size = size_of(shape_.arrays[a]);
        auto* memory = static_cast<std::uint8_t*>(tile.arrays[a].data());
        change(memory, tile.range.begin * size, tile.range.size() * size, a, step);
      }
    });
    EXPECT_EQ(seen, shape_.parts);
    for (auto& part : bytes_)
      for (std::size_t a = 0; a < part.size(); ++a)
        change(part[a].data(), 0, static_cast<std::int64_t>(part[a].size()), a, step);
  }

  // A read, a write, a flush, a read ahead or an update, drawn at random.
  void random_call(TiledStore& store, std::mt19937_64& random) {
    const auto below = [&](std::int64_t n) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
    };
    const auto part = static_cast<std::size_t>(below(static_cast<std::int64_t>(bytes_.size())));
    const auto array =
        static_cast<std::size_t>(below(static_cast<std::int64_t>(shape_.arrays.size())));
    const std::int64_t begin = below(shape_.parts[part] + 1);
    const Range range{begin, begin + below(shape_.parts[part] - begin + 1)};
    switch (below(16)) {
      case 0:
        update(store, static_cast<int>(below(100)));
        break;
      case 1:
        store.flush();
        break;
      case 2:
      case 3:
        store.read_ahead(part);
        break;
      case 4:
      case 5:
      case 6:
      case 7:
        write(store, part, array, range, random);
        break;
      default:
        expect_equal(store, part, array, range);
    }
  }

  void write(TiledStore& store, std::size_t part, std::size_t array, Range range,
             std::mt19937_64& random) {
    const std::int64_t size = size_of(shape_.arrays[array]);
    const Tensor from =
        allocate_on_host(ledger_, {range.size()}, shape_.arrays[array], MemoryKind::kWorkspace);
    auto* memory = static_cast<std::uint8_t*>(from.data());
    for (std::int64_t i = 0; i < from.bytes(); ++i)
      bytes_[part][array][static_cast<std::size_t>(range.begin * size + i)] = memory[i] =
          static_cast<std::uint8_t>(random());
    store.write(part, array, range, from);
  }

  void expect_equal(TiledStore& store) {
    for (std::size_t part = 0; part < bytes_.size(); ++part)
      for (std::size_t array = 0; array < shape_.arrays.size(); ++array)
        expect_equal(store, part, array, {0, shape_.parts[part]});
  }

  void expect_equal(TiledStore& store, std::size_t part, std::size_t array, Range range) {
    const Tensor to =
        allocate_on_host(ledger_, {range.size()}, shape_.arrays[array], MemoryKind::kWorkspace);
    store.read(part, array, range, to);
    const std::int64_t size = size_of(shape_.arrays[array]);
    if (to.bytes() > 0) {
      EXPECT_EQ(std::memcmp(to.data(), bytes_[part][array].data() + range.begin * size,
                            static_cast<std::size_t>(to.bytes())),
                0)
          << "part " << part << ", array " << array << ", elements " << range.begin << " to "
          << range.end;
    }
  }

 private:
  // A disk tile's arrays are 64-byte aligned; a host tile's as its range begins.
  std::uintptr_t alignment(const TiledStore& store) const {
    return store.tier() == Tier::kDisk ? 64 : 1;
  }

  static void change(std::uint8_t* memory, std::int64_t first, std::int64_t count,
                     std::size_t array, int step) {
    for (std::int64_t i = 0; i < count; ++i)
      memory[i] = static_cast<std::uint8_t>(memory[i] * 5 + (first + i) * 3 +
                                            static_cast<std::int64_t>(array) * 101 + step * 17 + 1);
  }

  TiledShape shape_;
  std::vector<std::vector<std::vector<std::uint8_t>>> bytes_;  // [part][array]
  std::shared_ptr<MemoryLedger> ledger_ = std::make_shared<MemoryLedger>();
};

}  // namespace trireme::test
