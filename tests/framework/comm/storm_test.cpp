// The storm itself: delays change no bit, a rank killed at any call ends all others by name.
#include "tests/support/storm.h"

#include <gtest/gtest.h>

#include <atomic>
#include <iostream>

#include "framework/backend/host_values.h"
#include "tests/support/ranks.h"

namespace trireme::test {
namespace {

constexpr int kRanks = 4;

// One of everything, twice. Returns numbers that depend on all of it.
std::vector<double> some_steps(Communicator& world, Backend& backend) {
  const auto half = world.split(world.rank() % 2, world.rank(), "half");
  const Tensor x = backend.allocate({8}, DType::kF64, MemoryKind::kActivations);
  const Tensor y = backend.allocate({8}, DType::kF64, MemoryKind::kActivations);
  const Tensor whole = backend.allocate({32}, DType::kF64, MemoryKind::kActivations);
  std::vector<double> start;
  for (int i = 0; i < 8; ++i) start.push_back(1.0 / (1 + i + 3 * world.rank()));
  upload_doubles(backend, start, x);
  const int next = (world.rank() + 1) % kRanks;
  const int before = (world.rank() + kRanks - 1) % kRanks;
  for (int step = 0; step < 2; ++step) {
    world.all_reduce(x).wait();
    half->broadcast(x, step % 2).wait();
    Pending sent = world.send(x, next);
    Pending received = world.recv(y, before);
    received.wait();
    sent.wait();
    half->all_reduce(y).wait();
    world.all_gather(y, whole).wait();
    world.reduce_scatter(whole, x).wait();
    world.barrier();
  }
  return download_doubles(backend, x);
}

TEST(Storm, DelaysChangeNoBit) {
  std::vector<std::vector<double>> quiet(kRanks);
  on_ranks(kRanks, [&](Communicator& world, Backend& backend) {
    quiet[static_cast<std::size_t>(world.rank())] = some_steps(world, backend);
  });
  for (std::uint64_t seed = 1; seed <= 50; ++seed)
    on_ranks(kRanks, [&](Communicator& world, Backend& backend) {
      StormCommunicator storm(world, {.seed = seed, .most_yields = 20});
      EXPECT_EQ(some_steps(storm, backend), quiet[static_cast<std::size_t>(world.rank())]);
    });
}

TEST(Storm, ARankKilledAtAnyCallEndsTheOthersByName) {
  std::int64_t killed = 0;
  for (const bool contributes : {false, true})
    for (int rank = 0; rank < kRanks; ++rank)
      for (std::int64_t k = 1;; ++k) {
        const std::string name = join("rank ", rank, " failed: killed at call ", k);
        std::atomic<int> told = 0;
        std::atomic<int> finished = 0;
        std::string first;
        try {
          on_ranks(kRanks, [&](Communicator& world, Backend& backend) {
            StormCommunicator storm(world, {.seed = static_cast<std::uint64_t>(k),
                                            .kill_rank = rank,
                                            .kill_at = k,
                                            .contributes = contributes});
            try {
              some_steps(storm, backend);
              ++finished;
              world.barrier();
            } catch (const Error& e) {
              if (std::string(e.what()).find(name) != std::string::npos) ++told;
              throw;
            }
          });
        } catch (const Error& e) {
          first = e.what();
        }
        if (first.empty()) {
          EXPECT_EQ(finished, kRanks);
          break;
        }
        ++killed;
        EXPECT_EQ(first.find(join("killed at call ", k)), 0u) << first;
        EXPECT_EQ(told, kRanks - 1) << first;
      }
  EXPECT_GT(killed, 100);
  std::cout << "faults: storm: " << killed << " kills, all named by the other ranks\n";
}

}  // namespace
}  // namespace trireme::test
