// Kept inputs come back with the same bits, wherever they were, and give back what they took.
#include "offload/activation_stores.h"

#include <gtest/gtest.h>

#include <cstring>

#include "framework/autograd/ops.h"
#include "framework/base/error.h"
#include "framework/nn/norm.h"
#include "offload/tiled_store.h"
#include "tests/offload/slow_files.h"
#include "tests/support/faulty_files.h"
#include "tests/support/guarded_backend.h"
#include "tests/support/ranks.h"
#include "tests/support/tensors.h"

namespace trireme::test {
namespace {

using ::trireme::testing::Fault;
using ::trireme::testing::FaultyFiles;
using ::trireme::testing::sentence_of;
using ::trireme::testing::TemporaryFolder;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A rank with device memory that only backends may touch, and a disk.
struct Rank {
  explicit Rank(Files* other = nullptr) : files(other ? *other : *real) {}
  std::unique_ptr<ActivationStore> on_disk(const DiskActivations& options) {
    return activations_on_disk(*backend, scratch, pool, options);
  }
  Tensor input(std::int64_t rows, std::uint64_t seed) {
    return random_tensor(*backend, {rows, 4}, DType::kF64, seed);
  }
  std::int64_t current(Tier tier) const { return ledger->current(tier); }

  std::shared_ptr<MemoryLedger> ledger = std::make_shared<MemoryLedger>();
  std::unique_ptr<Backend> backend = make_guarded_backend(ledger);
  TemporaryFolder outer;
  std::unique_ptr<Files> real = real_files();
  Files& files;
  ScratchFolder scratch{files, {.folder = outer.path()}};
  IoPool pool{2};
};

// Loss gradient of a few recomputed layers; y, dx and all weight gradients in one vector.
std::vector<double> train(Backend& backend, ActivationStore& store) {
  std::vector<ModulePtr> layers;
  for (int i = 0; i < 4; ++i)
    layers.push_back(std::make_unique<Recompute>(
        std::make_unique<Norm>("norm" + std::to_string(i), NormOptions{.columns = 4}), store));
  Sequence model(std::move(layers));
  std::uint64_t seed = 1;
  model.visit([&](Parameter& p) {
    p.value = random_tensor(backend, p.spec().shape, DType::kF64, ++seed);
    p.grad = backend.zeros(p.spec().shape, DType::kF64, MemoryKind::kGradients);
    p.reset_written();
  });
  Tape tape;
  const Context ctx{.backend = backend, .tape = &tape, .samples = 3, .compute = DType::kF64};
  const Var x = make_var(random_tensor(backend, {3, 4}, DType::kF64, 70), true);
  Var y = model.forward(ctx, x);
  std::vector<double> out = values(backend, y.value);
  const auto add = [&](const Tensor& t) {
    for (const double v : values(backend, t)) out.push_back(v);
  };
  y.grad->add(backend, random_tensor(backend, {3, 4}, DType::kF64, 80));
  tape.run_backward();
  add(x.grad->take());
  model.visit([&](Parameter& p) { add(p.grad); });
  return out;
}

TEST(Activations, RecomputeHasTheSameBitsFromEverywhere) {
  Rank rank;
  KeepOnDevice device;
  const std::vector<double> expected = train(*rank.backend, device);
  const auto host = activations_on_host(*rank.backend);
  EXPECT_EQ(train(*rank.backend, *host), expected);
  const auto disk = rank.on_disk({.slots = 4, .slot_bytes = 96, .buffers = 2});
  EXPECT_EQ(train(*rank.backend, *disk), expected);
  EXPECT_EQ(train(*rank.backend, *disk), expected);
  const auto self = make_self_communicator();
  const auto alone = partition_activations(*rank.backend, *self, *disk);
  EXPECT_EQ(train(*rank.backend, *alone), expected);
  EXPECT_EQ(rank.current(Tier::kDevice), 0);
}

TEST(Activations, RecomputeHasTheSameBitsCutOverRanks) {
  std::vector<double> expected;
  {
    Rank rank;
    KeepOnDevice device;
    expected = train(*rank.backend, device);
  }
  for (const int ranks : {2, 3, 5}) {
    run_thread_ranks(ranks, {.timeout_seconds = 60}, [&](Communicator& world) {
      Rank rank;
      world.attach(*rank.backend);
      KeepOnDevice device;
      const auto host = activations_on_host(*rank.backend);
      const auto disk = rank.on_disk({.slots = 4, .slot_bytes = 96});
      ActivationStore* const inner[] = {&device, host.get(), disk.get()};
      for (ActivationStore* store : inner) {
        const auto cut = partition_activations(*rank.backend, world, *store);
        check(train(*rank.backend, *cut) == expected, "other bits over ", ranks, " ranks");
        world.barrier();  // peers read this rank's pieces
        check(rank.current(Tier::kDevice) == 0, "device memory was never given back");
      }
    });
  }
}

TEST(Activations, PiecesMayBeEmptyAndAreAllThatIsKept) {
  on_ranks(4, [](Communicator& world, Backend& backend) {
    const auto ledger = backend.shared_ledger();
    const auto host = activations_on_host(backend);
    const auto cut = partition_activations(backend, world, *host);
    for (const std::int64_t n : {std::int64_t{1}, std::int64_t{5}, std::int64_t{16}}) {
      Tensor x = random_tensor(backend, {n}, DType::kF32, 3);
      const std::vector<double> expected = values(backend, x);
      auto fetch = cut->keep(std::exchange(x, Tensor()));
      const std::int64_t piece =
          piece_begin(n, 4, world.rank() + 1) - piece_begin(n, 4, world.rank());
      const MemoryKind kind = MemoryKind::kActivations;
      check(ledger->current(Tier::kDevice) == 0, "the whole is still on the device");
      check(ledger->entry(Tier::kHost, kind).current == piece * 4, "not 1/4 is on the host");
      const Tensor back = fetch();
      check(values(backend, back) == expected, "other bits");
      check(back.bytes() == ledger->entry(Tier::kDevice, kind).current, "more than the whole");
      check(ledger->current(Tier::kHost) == 0, "the host keeps its piece");
      world.barrier();
    }
  });
}

TEST(Activations, ShapesAndTypesComeBack) {
  Rank rank;
  const auto host = activations_on_host(*rank.backend);
  const auto disk = rank.on_disk({.slots = 8, .slot_bytes = 480, .buffers = 1});
  for (ActivationStore* store : {host.get(), disk.get()}) {
    std::vector<ActivationStore::Fetch> fetches;
    std::vector<std::vector<double>> expected;
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16})
      for (const std::int64_t rows : {0, 3}) {
        const Tensor x = random_tensor(*rank.backend, {2, rows, 5}, dtype, 5);
        expected.push_back(values(*rank.backend, x));
        fetches.push_back(store->keep(x));
      }
    for (std::size_t i = fetches.size(); i-- > 0;) {
      const Tensor x = fetches[i]();
      EXPECT_EQ(x.shape(), Shape({2, i % 2 == 0 ? 0 : 3, 5}));
      EXPECT_EQ(values(*rank.backend, x), expected[i]);
    }
  }
  EXPECT_EQ(rank.current(Tier::kDevice), 0);
}

TEST(Activations, AreCountedWhereTheyAre) {
  Rank rank;
  const MemoryKind kind = MemoryKind::kActivations;
  {
    const auto host = activations_on_host(*rank.backend);
    auto fetch = host->keep(rank.input(3, 1));
    EXPECT_EQ(rank.current(Tier::kDevice), 0);
    EXPECT_EQ(rank.ledger->entry(Tier::kHost, kind).current, 96);
    fetch = nullptr;  // an aborted step
    EXPECT_EQ(rank.current(Tier::kHost), 0);
  }
  const auto disk = rank.on_disk({.slots = 5, .slot_bytes = 5000, .buffers = 2});
  EXPECT_EQ(rank.ledger->entry(Tier::kDisk, kind).current, 5 * SlotFile::slot_bytes(5000));
  EXPECT_EQ(rank.ledger->entry(Tier::kHost, MemoryKind::kCommunication).current,
            2 * SlotFile::slot_bytes(5000));
  const std::int64_t before = rank.current(Tier::kHost);
  const auto fetch = disk->keep(rank.input(3, 1));
  EXPECT_EQ(rank.current(Tier::kDevice), 0);
  EXPECT_EQ(rank.current(Tier::kHost), before);
}

TEST(Activations, ADroppedFetchGivesItsSlotBack) {
  Rank rank;
  auto disk = rank.on_disk({.slots = 2, .slot_bytes = 96});
  for (int i = 0; i < 10; ++i) {
    auto a = disk->keep(rank.input(3, 1));
    auto b = disk->keep(rank.input(3, 2));
    EXPECT_EQ(sentence_of([&] { static_cast<void>(disk->keep(rank.input(3, 3))); }),
              "offload: 2 inputs are kept for backward already, and there are slots for no more");
    if (i % 2 == 0) {
      EXPECT_EQ(values(*rank.backend, b()), values(*rank.backend, rank.input(3, 2)));
    }
  }
  auto kept = disk->keep(rank.input(3, 1));
  auto dropped = disk->keep(rank.input(3, 1));
  disk.reset();
  dropped = nullptr;
  EXPECT_EQ(sentence_of([&] { kept(); }),
            "offload: a kept input is fetched after its store on disk has gone");
  EXPECT_EQ(rank.current(Tier::kDevice) + rank.current(Tier::kHost) + rank.current(Tier::kDisk), 0);
  EXPECT_TRUE(rank.files.list(rank.scratch.path()).empty());
}

TEST(Activations, MisuseIsNamed) {
  Rank rank;
  EXPECT_EQ(sentence_of([&] { rank.on_disk({.slots = 1, .slot_bytes = 0}); }),
            "offload: activations have 1 slots of 0 bytes; at least 1 byte is needed");
  EXPECT_EQ(sentence_of([&] { rank.on_disk({.slots = 1, .slot_bytes = 8, .buffers = 0}); }),
            "offload: activations have 0 buffers; at least 1 is needed");
  const auto none = rank.on_disk({});
  EXPECT_TRUE(contains(sentence_of([&] { none->keep(rank.input(3, 1)); }), "but a slot"));
  const auto disk = [&] {
    return activations_on_disk(*rank.backend, rank.scratch, rank.pool,
                               {.slots = 1, .slot_bytes = 95});
  };
  EXPECT_TRUE(contains(sentence_of(disk), "File exists"));  // one such store in a folder
  const auto host = activations_on_host(*rank.backend);
  const auto fetch = host->keep(rank.input(3, 1));
  fetch();
  EXPECT_EQ(sentence_of([&] { fetch(); }), "offload: a kept input is fetched a second time");
}

TEST(Activations, SlowDisksGiveTheSameBits) {
  std::vector<double> expected;
  {
    Rank rank;
    KeepOnDevice device;
    expected = train(*rank.backend, device);
  }
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SlowFiles files(seed);
    Rank rank(&files);
    const auto disk =
        rank.on_disk({.slots = 4, .slot_bytes = 96, .buffers = 1 + static_cast<int>(seed % 4)});
    for (int step = 0; step < 3; ++step) EXPECT_EQ(train(*rank.backend, *disk), expected);
  }
}

TEST(Activations, FaultsAreOneSentenceAndLeaveNothing) {
  for (const Fault fault : {Fault::kIoError, Fault::kDiskFull, Fault::kOneByte}) {
    std::int64_t failed = 0;
    for (std::int64_t k = 4;; ++k) {  // the first three make the folder
      FaultyFiles files({.fault = fault, .at = k});
      Rank rank(&files);
      const std::string said = sentence_of([&] {
        const auto disk = rank.on_disk({.slots = 4, .slot_bytes = 96, .buffers = 2});
        train(*rank.backend, *disk);
      });
      EXPECT_EQ(said.find('\n'), std::string::npos);
      if (!said.empty()) ++failed;
      EXPECT_EQ(rank.current(Tier::kDevice) + rank.current(Tier::kHost) + rank.current(Tier::kDisk),
                0);
      if (files.calls() < k) break;
    }
    EXPECT_EQ(failed, fault == Fault::kOneByte ? 0 : 10);  // open, reserve, 4 writes, 4 reads
  }
}

}  // namespace
}  // namespace trireme::test
