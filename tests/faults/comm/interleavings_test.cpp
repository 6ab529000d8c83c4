// Two ranks with 6 calls each: every order in which they can come to their calls, one after the
// other by depth-first search over the draws of the baton.
#include <gtest/gtest.h>

#include <array>
#include <iostream>

#include "framework/backend/host_values.h"
#include "framework/base/error.h"
#include "tests/support/baton.h"
#include "tests/support/fault_count.h"

namespace trireme::test {
namespace {

using Program = std::function<std::vector<double>(Communicator& world, Backend& backend)>;
using Results = std::vector<std::vector<double>>;

Tensor filled(Backend& backend, int rank, std::int64_t n) {
  const Tensor x = backend.allocate({n}, DType::kF64, MemoryKind::kActivations);
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(1.0 / static_cast<double>(1 + i + n * rank));
  upload_doubles(backend, values, x);
  return x;
}

void append(std::vector<double>& all, const Tensor& x, Backend& backend) {
  const std::vector<double> values = download_doubles(backend, x);
  all.insert(all.end(), values.begin(), values.end());
}

// 6 calls of 6 kinds; those in flight together are waited for in other orders on the two ranks.
std::vector<double> mixed_program(Communicator& world, Backend& backend) {
  const int me = world.rank(), other = 1 - me;
  const Tensor a = filled(backend, me, 5), b = filled(backend, me, 4), c = filled(backend, me, 3);
  const Tensor d = backend.zeros({5}, DType::kF64, MemoryKind::kActivations);
  const Tensor whole = backend.zeros({8}, DType::kF64, MemoryKind::kActivations);
  std::array<Pending, 3> pending{world.all_reduce(c), world.send(a, other), world.recv(d, other)};
  for (const int i : {0, 1, 2}) pending[static_cast<std::size_t>(me == 0 ? i : 2 - i)].wait();
  world.all_gather(b, whole).wait();
  Pending root = world.broadcast(d, 1);
  world.all_reduce(b, ReduceOp::kMax).wait();
  root.wait();
  std::vector<double> all;
  for (const Tensor& x : {a, b, c, d, whole}) append(all, x, backend);
  return all;
}

// 6 messages each: the ranks are free of each other for longer.
std::vector<double> message_program(Communicator& world, Backend& backend) {
  const int me = world.rank(), other = 1 - me;
  std::vector<Pending> pending;
  std::vector<Tensor> got;
  for (int i = 0; i < 3; ++i) {
    got.push_back(backend.zeros({3}, DType::kF64, MemoryKind::kActivations));
    pending.push_back(world.send(filled(backend, me + i, 3), other));
    pending.push_back(world.recv(got.back(), other));
  }
  for (Pending& one : pending) one.wait();
  std::vector<double> all;
  for (const Tensor& x : got) append(all, x, backend);
  return all;
}

// A bug for the search: ranks that touch a common number between two calls. It shows only if rank
// 1 goes to its third call before rank 0 has come to its second.
std::vector<double> racing_program(Communicator& world, Backend& backend, double& shared) {
  const Tensor x = filled(backend, world.rank(), 2);
  Pending first = world.all_reduce(x);
  if (world.rank() == 0) shared = 1;
  Pending second = world.send(filled(backend, 7, 2), 1 - world.rank());
  const Tensor y = backend.zeros({2}, DType::kF64, MemoryKind::kActivations);
  const double seen = shared;
  Pending third = world.recv(y, 1 - world.rank());
  for (Pending* one : {&first, &second, &third}) one->wait();
  return {world.rank() == 1 ? seen : 0.0};
}

struct Run {
  Results results{2};
  std::vector<Baton::Draw> draws;
  std::uint64_t hash = 0;
};

Run run_once(const Program& program, std::vector<std::uint32_t> script) {
  Run run;
  Baton baton(2, std::move(script));
  run_thread_ranks(2, baton.options(), [&](Communicator& world) {
    const auto backend = make_reference_backend(std::make_shared<MemoryLedger>());
    world.attach(*backend);
    run.results[static_cast<std::size_t>(world.rank())] = program(world, *backend);
  });
  run.draws = baton.draws();
  run.hash = baton.hash();
  return run;
}

// The script of the next order, by depth first; empty after the last one.
std::vector<std::uint32_t> next_script(std::vector<Baton::Draw> draws) {
  while (!draws.empty() && draws.back().chosen + 1 == draws.back().of) draws.pop_back();
  std::vector<std::uint32_t> script;
  for (const Baton::Draw& draw : draws) script.push_back(draw.chosen);
  if (!script.empty()) ++script.back();
  return script;
}

// How many orders there are, and in how many the results differ from the first.
std::pair<std::int64_t, std::int64_t> try_all(const Program& program) {
  const Run first = run_once(program, {});
  std::int64_t orders = 1, differing = 0;
  for (auto script = next_script(first.draws); !script.empty(); ++orders) {
    const Run run = run_once(program, script);
    differing += run.results == first.results ? 0 : 1;
    script = next_script(run.draws);
  }
  return {orders, differing};
}

TEST(Interleavings, AllOfTwoRanksGiveTheSameBits) {
  FaultCount told{.row = "R3", .what = "all orders of 2 ranks with 6 calls each"};
  for (const Program& program : {Program(mixed_program), Program(message_program)}) {
    const auto [orders, differing] = try_all(program);
    std::cout << "all interleavings of 2 ranks: " << orders << "\n";
    EXPECT_EQ(differing, 0);
    EXPECT_GT(orders, 100);
    told.runs += orders;
    told.injected += orders - 1;
    told.lost += differing;
  }
  tell(told);
}

TEST(Interleavings, FindAPlantedRace) {
  double shared = 0;
  const auto [orders, differing] = try_all([&](Communicator& world, Backend& backend) {
    if (world.rank() == 0) shared = 0;
    return racing_program(world, backend, shared);
  });
  EXPECT_GT(orders, 10);
  EXPECT_GT(differing, 0) << orders;
}

}  // namespace
}  // namespace trireme::test
