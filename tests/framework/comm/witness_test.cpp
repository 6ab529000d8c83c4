#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "framework/backend/host_values.h"
#include "framework/comm/mesh.h"
#include "framework/comm/witness_communicator.h"
#include "tests/support/ranks.h"

namespace trireme {
namespace {

using Events = std::vector<std::vector<CommEvent>>;  // by rank

Tensor filled(Backend& backend, std::int64_t n, double value) {
  Tensor x = backend.allocate({n}, DType::kF32, MemoryKind::kWorkspace);
  backend.kernels()->fill(x, value);
  return x;
}

// Of a short program of 2 data x 2 tensor ranks in which rank `wrong` adds something of its own.
Events recorded(int wrong) {
  Events all(4);
  std::mutex mutex;
  test::on_ranks(4, [&](Communicator& world, Backend& backend) {
    WitnessCommunicator witness(world);
    witness.attach(backend);
    Mesh mesh(witness, {.data = 2, .pipeline = 1, .tensor = 2});
    mesh.data().all_reduce(filled(backend, 3, 1)).wait();  // not recorded
    EXPECT_EQ(backend.ledger().current(Tier::kDevice), 0);
    witness.begin_record();
    const Tensor x = filled(backend, 6, world.rank() == wrong ? 7 : 1);
    mesh.tensor().all_reduce(x).wait();
    mesh.data().all_gather(x.elements_at(3 * mesh.data().rank(), {3}), x).wait();
    Pending sent = mesh.tensor().rank() == 0 ? mesh.tensor().send(x, 1) : mesh.tensor().recv(x, 0);
    sent.wait();
    std::vector<CommEvent> mine = witness.end_record();
    mesh.data().all_reduce(filled(backend, 3, 1)).wait();
    EXPECT_TRUE(witness.end_record().empty());
    const std::scoped_lock lock(mutex);
    all[static_cast<std::size_t>(world.rank())] = std::move(mine);
  });
  return all;
}

TEST(Witness, NotesWhatGoesOutAndWhatCameIn) {
  const Events all = recorded(-1);
  for (const std::vector<CommEvent>& events : all) {
    ASSERT_EQ(events.size(), 6u);  // sum: out, 2 pieces; gather: out, in; a message
    EXPECT_TRUE(events[0].outgoing);
    EXPECT_EQ(events[1].piece, 0);
    EXPECT_EQ(events[2].piece, 1);
  }
  // Members of a group name a call alike, other groups' calls otherwise; and both ends of a
  // message.
  EXPECT_EQ(all[0][0].call, all[1][0].call);
  EXPECT_NE(all[0][0].call, all[2][0].call);
  EXPECT_EQ(all[0][3].call, all[2][3].call);
  EXPECT_EQ(all[0][5].call, all[1][5].call);
  EXPECT_TRUE(all[0][5].outgoing);
  EXPECT_FALSE(all[1][5].outgoing);
  EXPECT_EQ(all[0][5].value, all[1][5].value);
  EXPECT_EQ(recorded(-1), all);
}

TEST(Witness, TheFirstDifferenceOfTheWrongRankIsWhatItSent) {
  const Events quiet = recorded(-1), odd = recorded(2);
  const auto first = [&](std::size_t rank) {
    const auto [a, b] = std::mismatch(quiet[rank].begin(), quiet[rank].end(), odd[rank].begin());
    return a->outgoing;
  };
  EXPECT_TRUE(first(2));
  for (const std::size_t rank : {0, 1, 3}) EXPECT_FALSE(first(rank));
}

}  // namespace
}  // namespace trireme
