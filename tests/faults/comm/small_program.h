// A program of 4 ranks that uses every operation of the communicator, and runs of it under a baton.
#pragma once

#include <string>
#include <vector>

#include "framework/backend/host_values.h"
#include "framework/base/error.h"
#include "tests/support/baton.h"

namespace trireme::test {

constexpr int kRanks = 4;

// One of everything, twice. Returns numbers that depend on all of it.
inline std::vector<double> small_program(Communicator& world, Backend& backend) {
  const auto half = world.split(world.rank() % 2, world.rank(), "half");
  const auto tensor = [&](std::int64_t n) {
    return backend.zeros({n}, DType::kF64, MemoryKind::kActivations);
  };
  const Tensor x = tensor(8), y = tensor(8), z = tensor(8), whole = tensor(32);
  std::vector<double> start;
  for (int i = 0; i < 8; ++i) start.push_back(1.0 / (1 + i + 3 * world.rank()));
  upload_doubles(backend, start, x);
  const int next = (world.rank() + 1) % kRanks;
  const int before = (world.rank() + kRanks - 1) % kRanks;
  for (int step = 0; step < 2; ++step) {
    world.set_place(join("step ", step + 1));
    world.all_reduce(x).wait();
    half->broadcast(x, step % 2).wait();
    Pending right = world.send(x, next), from_left = world.recv(y, before);
    Pending left = world.send(x, before), from_right = world.recv(z, next);
    from_right.wait();
    half->all_reduce(z).wait();
    from_left.wait();
    half->all_reduce(y, ReduceOp::kMax).wait();
    left.wait();
    right.wait();
    world.all_gather(y, whole).wait();
    world.reduce_scatter(whole, x).wait();
    half->all_reduce(x).wait();
    world.barrier();
  }
  std::vector<double> result = download_doubles(backend, x);
  const std::vector<double> more = download_doubles(backend, z);
  result.insert(result.end(), more.begin(), more.end());
  return result;
}

struct SmallRun {
  std::vector<std::vector<double>> results{kRanks};  // by rank; empty: it did not end
  std::vector<std::string> errors{kRanks};           // by rank; empty: none
  std::string thrown;                                // by run_thread_ranks
  std::int64_t bytes_left = 0;                       // in all ledgers
};

SmallRun run_small(const CommunicatorOptions& options);

// Threads of this process.
std::int64_t threads_now();

}  // namespace trireme::test
