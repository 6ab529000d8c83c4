// A flat buffer at home on the device, on the host and on disk: the same elements, whoever asks.
#include "zero/flat_home.h"

#include "framework/backend/host_values.h"
#include "framework/base/error.h"
#include "tests/support/faulty_files.h"
#include "tests/support/guarded_backend.h"
#include "tests/support/tensors.h"

namespace trireme::test {
namespace {

constexpr Range kHome{6, 31};  // of the flat buffer

// Runs `body` on a home of each tier, the device guarded, as zeros at first.
void on_every_tier(DType dtype, const std::function<void(Backend&, const FlatHome&)>& body) {
  const auto files = real_files();
  const testing::TemporaryFolder folder;
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk}) {
    SCOPED_TRACE(name_of(tier));
    const auto ledger = std::make_shared<MemoryLedger>();
    {
      const auto device = make_guarded_backend(ledger);
      const auto host = make_reference_backend(ledger);
      const ScratchFolder scratch(*files, {.folder = folder.path()});
      IoPool pool(2);
      const TiledShape shape{
          .parts = {5, kHome.size(), 0}, .arrays = {DType::kF64, dtype}, .tile = 7};
      std::unique_ptr<TiledStore> store;
      if (tier == Tier::kHost) store = make_host_store(shape, ledger);
      if (tier == Tier::kDisk) store = make_disk_store(shape, ledger, scratch, pool, {.name = "x"});
      body(*device, store ? FlatHome::in_store({device.get(), host.get()}, *store, 1, 1, kHome)
                          : FlatHome::on_device(*device, kHome, dtype, MemoryKind::kGradients));
    }
    for (const Tier any : {Tier::kDevice, Tier::kHost, Tier::kDisk})
      EXPECT_EQ(ledger->current(any), 0) << name_of(any);
  }
}

std::vector<double> loaded(Backend& device, const FlatHome& home, Range part) {
  const Tensor x = device.allocate({part.size()}, home.dtype(), MemoryKind::kWorkspace);
  home.load(part, x);
  return values(device, x);
}

std::vector<double> counting(double from, std::int64_t count) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < count; ++i) all.push_back(from + static_cast<double>(i));
  return all;
}

TEST(FlatHome, LoadsSavesAndAddsAnyPart) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16})
    on_every_tier(dtype, [&](Backend& device, const FlatHome& home) {
      EXPECT_EQ(home.dtype(), dtype);
      EXPECT_EQ(loaded(device, home, kHome), std::vector<double>(25, 0.0));
      home.save(kHome, tensor(device, {25}, dtype, counting(1, 25)));
      EXPECT_EQ(loaded(device, home, {9, 24}), counting(4, 15));
      home.save({12, 13}, tensor(device, {1}, dtype, {100}));
      home.add({11, 14}, tensor(device, {3}, dtype, {10, 20, 30}));
      EXPECT_EQ(loaded(device, home, {10, 15}), (std::vector<double>{5, 16, 120, 38, 9}));
      home.fill(3);
      EXPECT_EQ(loaded(device, home, kHome), std::vector<double>(25, 3.0));
      EXPECT_EQ(loaded(device, home, {8, 8}), std::vector<double>());
    });
}

TEST(FlatHome, PutsValuesThatLieInItsRange) {
  on_every_tier(DType::kF32, [](Backend& device, const FlatHome& home) {
    home.put(0, counting(0, 10));   // 6 to 9 of them
    home.put(29, counting(29, 9));  // 29 and 30
    home.put(40, counting(40, 2));  // none
    home.flush();
    EXPECT_EQ(loaded(device, home, {6, 11}), (std::vector<double>{6, 7, 8, 9, 0}));
    EXPECT_EQ(loaded(device, home, {28, 31}), (std::vector<double>{0, 29, 30}));
  });
}

TEST(FlatHome, KnowsWhatIsNotItsOwn) {
  on_every_tier(DType::kF32, [](Backend& device, const FlatHome& home) {
    const Tensor x = tensor(device, {2}, DType::kF32, {1, 2});
    EXPECT_THROW(home.load({5, 7}, x), Error);
    EXPECT_THROW(home.save({30, 32}, x), Error);
    if (!home.on_device()) {
      EXPECT_THROW(home.device(), Error);
    }
  });
}

// Reading ahead is a hint: the bytes are the same with it and without, and after a write.
TEST(FlatHome, ReadsAhead) {
  on_every_tier(DType::kF64, [](Backend& device, const FlatHome& home) {
    home.save(kHome, tensor(device, {25}, DType::kF64, counting(1, 25)));
    home.flush();
    home.read_ahead();
    EXPECT_EQ(loaded(device, home, kHome), counting(1, 25));
    home.read_ahead();
    home.save({6, 7}, tensor(device, {1}, DType::kF64, {50}));
    EXPECT_EQ(loaded(device, home, {6, 8}), (std::vector<double>{50, 2}));
  });
}

}  // namespace
}  // namespace trireme::test
