// run_thread_ranks: what a throwing rank does to the others and to the caller.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "framework/base/error.h"
#include "framework/comm/mesh.h"
#include "tests/conformance/comm/comm_cases.h"

namespace trireme::test {
namespace {

std::string prefix(int rank) { return join("[rank ", rank, "] "); }

std::ptrdiff_t threads_now() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

TEST(ThreadRanks, FirstErrorComesOutWithItsPrefixAndNoThreadStays) {
  const auto before = threads_now();
  std::atomic<int> woken{0};
  const std::string error = error_of([&] {
    run_thread_ranks(
        4, {},
        [&](Communicator& world) {
          world.barrier();
          if (world.rank() == 3) throw Error("layer 2 is tired");
          try {
            world.barrier();
          } catch (const Error& peer) {
            ++woken;
            contains(peer.what(), "rank 3 failed: layer 2 is tired");
            throw;
          }
        },
        prefix);
  });
  EXPECT_EQ(error, "[rank 3] layer 2 is tired");
  EXPECT_EQ(woken, 3);
  EXPECT_EQ(threads_now(), before);
}

TEST(ThreadRanks, KindOfErrorIsKept) {
  const auto body = [](Communicator& world) {
    if (world.rank() == 1) throw UsageError("parallel.data = 7");
    world.barrier();
  };
  try {
    run_thread_ranks(2, {}, body, prefix);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "[rank 1] parallel.data = 7");
  }
}

TEST(ThreadRanks, ForeignExceptionsBecomeErrors) {
  EXPECT_EQ(error_of([] {
              run_thread_ranks(2, {}, [](Communicator& world) {
                if (world.rank() == 0) throw std::out_of_range("index 9");
                world.barrier();
              });
            }),
            "index 9");
  EXPECT_EQ(error_of([] { run_thread_ranks(1, {}, [](Communicator&) { throw 7; }); }),
            "unknown error");
}

TEST(ThreadRanks, ARankThatEndsEarlyIsNamedAtOnce) {
  EXPECT_EQ(error_of([] {
              run_thread_ranks(3, {}, [](Communicator& world) {
                if (world.rank() != 1) world.barrier();
              });
            }),
            "rank 1 has ended without joining barrier, call 1 of world");
}

TEST(ThreadRanks, AnErrorOfTheLastDroppedPendingIsNotLost) {
  contains(error_of([] {
             run_thread_ranks(2, {}, [](Communicator& world) {
               const auto backend = make_reference_backend(std::make_shared<MemoryLedger>());
               world.attach(*backend);
               const Tensor x =
                   backend->zeros({1 + world.rank()}, DType::kF32, MemoryKind::kActivations);
               const Pending dropped = world.all_reduce(x);
             });
           }),
           "rank 1 called all_reduce of 2 f32");
}

// Sums fail where the kernel fails: here the memory of the result.
TEST(ThreadRanks, OperandsNeedABackend) {
  contains(error_of([] {
             run_thread_ranks(2, {}, [](Communicator& world) {
               const auto backend = make_reference_backend(std::make_shared<MemoryLedger>());
               (void)world.all_reduce(backend->zeros({1}, DType::kF32, MemoryKind::kActivations));
             });
           }),
           "no backend is attached");
}

TEST(ThreadRanks, ManyWorldsAtOnce) {
  std::atomic<int> sum{0};
  run_thread_ranks(2, {}, [&](Communicator&) {
    run_thread_ranks(3, {}, [&](Communicator& inner) {
      inner.barrier();
      sum += inner.rank();
    });
  });
  EXPECT_EQ(sum, 6);
}

}  // namespace
}  // namespace trireme::test
