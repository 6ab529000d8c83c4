// Messages, split groups, and operations in flight that ranks wait for in different orders.
#include <algorithm>

#include "tests/conformance/comm/comm_cases.h"
#include "tests/support/tensors.h"

namespace trireme::test {

namespace {

Tensor room(CaseContext& c, std::int64_t n, DType dtype) {
  return c.backend.zeros({n}, dtype, MemoryKind::kActivations);
}

void messages_around_the_ring(CaseContext& c) {
  const int next = (c.rank() + 1) % c.size(), before = (c.rank() + c.size() - 1) % c.size();
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kI32, DType::kU8})
    for (const std::int64_t n : {0, 1, 17, 40'000}) {
      const Tensor x = tensor_of(c, c.rank(), n, dtype, 20), y = room(c, n, dtype);
      Pending sent = c.world.send(x, next);
      c.world.recv(y, before).wait();
      sent.wait();
      same(result(c, y), values_of(before, n, dtype, 20), "a message");
    }
}

void messages_of_a_pair_keep_their_order(CaseContext& c) {
  const int other = c.size() - 1 - c.rank();  // possibly itself
  std::vector<Pending> pending;
  std::vector<Tensor> got;
  for (std::uint64_t k = 0; k < 5; ++k) {
    pending.push_back(c.world.send(tensor_of(c, c.rank(), 9, DType::kF32, 30 + k), other));
    got.push_back(room(c, 9, DType::kF32));
    pending.push_back(c.world.recv(got.back(), other));
  }
  // Last first: order of waiting must not matter.
  while (!pending.empty()) {
    pending.back().wait();
    pending.pop_back();
  }
  for (std::uint64_t k = 0; k < 5; ++k)
    same(result(c, got[k]), values_of(other, 9, DType::kF32, 30 + k), join("message ", k));
}

// Rank 0 waits for the first operation first, rank 1 for the last, others in shuffled orders.
void any_order_of_waiting(CaseContext& c) {
  constexpr std::int64_t kCount = 4099;
  const auto group = c.world.split(c.rank() % 2, c.rank(), "half");
  std::vector<int> everybody, half;
  for (int r = 0; r < c.size(); ++r) {
    everybody.push_back(r);
    if (r % 2 == c.rank() % 2) half.push_back(r);
  }
  for (std::uint64_t round = 0; round < 4; ++round) {
    std::vector<Tensor> x;
    std::vector<Pending> pending;
    for (std::uint64_t k = 0; k < 8; ++k) {
      x.push_back(tensor_of(c, c.rank(), kCount, DType::kF32, 40 + k));
      Communicator& on = k % 4 == 3 ? *group : c.world;
      pending.push_back(k % 4 == 2 ? on.broadcast(x.back(), 0) : on.all_reduce(x.back()));
    }
    std::vector<std::size_t> order(pending.size());
    for (std::size_t i = 0; i < order.size(); ++i)
      order[i] = (i * (c.rank() % 2 == 0 ? 3 : 5) + static_cast<std::size_t>(c.rank()) + round) % 8;
    if (c.rank() == 1) std::reverse(order.begin(), order.end());
    for (const std::size_t k : order) pending[k].wait();
    for (std::uint64_t k = 0; k < 8; ++k) {
      const auto expected = k % 4 == 2 ? values_of(0, kCount, DType::kF32, 40 + k)
                                       : sum_of(k % 4 == 3 ? half : everybody, kCount, DType::kF32,
                                                DType::kF32, 40 + k);
      same(result(c, x[k]), expected, join("operation ", k, " in flight"));
    }
  }
}

void a_dropped_pending_waits(CaseContext& c) {
  const Tensor x = tensor_of(c, c.rank(), 33, DType::kF64, 50);
  { const Pending dropped = c.world.all_reduce(x); }
  same(result(c, x), sum_of_ranks(c.size(), 33, DType::kF64, DType::kF64, 50), "a dropped Pending");
  Pending assigned = c.world.all_reduce(x);
  assigned = Pending();
  assigned.wait();
  assigned.wait();
}

// An in-place update is legal when nobody shares the storage; that must not depend on when peers
// were done.
void no_owner_stays_behind(CaseContext& c) {
  const Tensor x = tensor_of(c, c.rank(), 1000, DType::kF32, 51);
  const Tensor whole = room(c, 1000 * c.size(), DType::kF32);
  c.world.all_reduce(x).wait();
  check(x.sole_owner(), "all_reduce kept its operand");
  c.world.all_gather(x, whole).wait();
  check(x.sole_owner() && whole.sole_owner(), "all_gather kept an operand");
}

// The operation keeps its operands alive.
void operands_may_be_dropped(CaseContext& c) {
  const int next = (c.rank() + 1) % c.size(), before = (c.rank() + c.size() - 1) % c.size();
  Pending sent = c.world.send(tensor_of(c, c.rank(), 500, DType::kF32, 52), next);
  const Tensor scratch = tensor_of(c, c.rank(), 500, DType::kF32, 53);
  const Tensor y = room(c, 500, DType::kF32);
  c.world.recv(y, before).wait();
  same(result(c, y), values_of(before, 500, DType::kF32, 52), "a message whose tensor was dropped");
  sent.wait();
}

void split_groups(CaseContext& c) {
  // Reversed order by key; color -1 joins none.
  const auto reversed = c.world.split(0, -c.rank(), "reversed");
  check(reversed->rank() == c.size() - 1 - c.rank() && reversed->size() == c.size() &&
            reversed->axis() == "reversed",
        "split by key: rank ", reversed->rank(), " of ", reversed->size());
  const Tensor x = tensor_of(c, c.rank(), 5, DType::kF32, 54);
  reversed->broadcast(x, 0).wait();
  same(result(c, x), values_of(c.size() - 1, 5, DType::kF32, 54), "broadcast in reversed order");

  const auto odd = c.world.split(c.rank() % 2 == 1 ? 7 : -1, 0, "odd");
  check((odd == nullptr) == (c.rank() % 2 == 0), "split with color -1");
  if (odd) {
    const Tensor y = tensor(c.backend, {1}, DType::kF64, {1.0});
    odd->all_reduce(y).wait();
    same(result(c, y), {static_cast<double>(c.size() / 2)}, "all_reduce over odd ranks");
    odd->barrier();
  }
  // A group of a group; traffic is one table of the rank.
  c.world.reset_traffic();
  const auto inner = reversed->split(reversed->rank() / 2, reversed->rank(), "pair");
  const Tensor z = tensor(c.backend, {2}, DType::kF32, {1.0, 2.0});
  inner->all_reduce(z).wait();
  const double members = inner->size();
  same(result(c, z), {members, 2 * members}, "all_reduce over a pair");
  const std::int64_t bytes = inner->size() == 1 ? 0 : 8;
  check(c.world.traffic().at("pair/all_reduce").bytes == bytes, "traffic of a group of a group");
}

void barriers(CaseContext& c) {
  for (int i = 0; i < 50; ++i) c.world.barrier();
}

void recent_calls_are_kept(CaseContext& c) {
  c.world.set_place("step 5, a test");
  for (int i = 0; i < 70; ++i) c.world.barrier();
  const std::string calls = c.world.recent_calls();
  contains(calls, join("rank ", c.rank(), ": barrier, call "));
  contains(calls, " of world at step 5, a test");
  const std::string mine = join("rank ", c.rank(), ": ");
  int lines = 0;
  for (std::size_t at = calls.find(mine); at != std::string::npos; at = calls.find(mine, at + 1))
    ++lines;
  check(lines == 64, lines, " calls are remembered instead of 64");
}

}  // namespace

std::vector<CommCase> flight_cases() {
  return {{"messages around the ring", messages_around_the_ring},
          {"messages keep their order", messages_of_a_pair_keep_their_order},
          {"any order of waiting", any_order_of_waiting},
          {"a dropped Pending waits", a_dropped_pending_waits},
          {"no owner stays behind", no_owner_stays_behind},
          {"operands may be dropped", operands_may_be_dropped},
          {"split groups", split_groups},
          {"barriers", barriers},
          {"recent calls", recent_calls_are_kept}};
}

}  // namespace trireme::test
