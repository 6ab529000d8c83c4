#include <gtest/gtest.h>

#include "framework/comm/mesh.h"

namespace trireme {
namespace {

// Spans of each rank of 2 data x 2 tensor ranks whose clock ticks at every look.
std::vector<std::vector<CommSpan>> observed(
    const std::function<void(Mesh& mesh, Backend& backend)>& body) {
  std::vector<std::vector<CommSpan>> all(4);
  run_thread_ranks(4, {.timeout_seconds = 60}, [&](Communicator& world) {
    const auto backend = make_reference_backend(std::make_shared<MemoryLedger>());
    world.attach(*backend);
    Mesh mesh(world, {.data = 2, .pipeline = 1, .tensor = 2});
    auto& mine = all[static_cast<std::size_t>(world.rank())];
    double ticks = 0;
    world.set_observer({.clock = [&ticks] { return ++ticks; },
                        .finished = [&mine](const CommSpan& span) { mine.push_back(span); }});
    body(mesh, *backend);
    world.set_observer({});
    world.barrier();
  });
  return all;
}

Tensor zeros(Backend& backend, std::int64_t n) {
  return backend.zeros({n}, DType::kF32, MemoryKind::kWorkspace);
}

TEST(CommObserver, SeesOperationsOfAllGroupsInTheOrderTheyEnd) {
  const auto all = observed([](Mesh& mesh, Backend& backend) {
    Tensor a = zeros(backend, 4), b = zeros(backend, 8);
    Pending first = mesh.data().all_reduce(a);
    mesh.tensor().all_reduce(b).wait();
    first.wait();
  });
  for (const auto& spans : all) {
    ASSERT_EQ(spans.size(), 2u);
    EXPECT_EQ(spans[0].operation, "tensor/all_reduce");
    EXPECT_EQ(spans[0].bytes, 32);
    EXPECT_EQ(spans[1].operation, "data/all_reduce");
    EXPECT_EQ(spans[1].bytes, 16);
    const std::vector<double> first = {spans[1].begin, spans[1].started, spans[1].waited,
                                       spans[1].end};
    EXPECT_EQ(first, (std::vector<double>{1, 2, 7, 8}));
  }
}

TEST(CommObserver, NamesTheOtherEndOfAMessage) {
  const auto all = observed([](Mesh& mesh, Backend& backend) {
    Tensor x = zeros(backend, 3);
    for (int message = 0; message < 2; ++message)
      (mesh.data().rank() == 0 ? mesh.data().send(x, 1) : mesh.data().recv(x, 0)).wait();
  });
  for (int rank = 0; rank < 4; ++rank) {
    const auto& spans = all[static_cast<std::size_t>(rank)];
    ASSERT_EQ(spans.size(), 2u);
    const bool sends = rank < 2;
    EXPECT_EQ(spans[1].operation, sends ? "data/send" : "data/recv");
    EXPECT_EQ(spans[1].peer, sends ? rank + 2 : rank - 2);
    EXPECT_EQ(spans[1].sequence, 2);
    EXPECT_EQ(spans[1].bytes, sends ? 12 : 0);
  }
}

TEST(CommObserver, LeavesOutGroupsOfOneAndWhatStartsLater) {
  const auto all = observed([](Mesh& mesh, Backend& backend) {
    Tensor x = zeros(backend, 3);
    mesh.pipeline().all_reduce(x).wait();
    mesh.world().set_observer({});
    mesh.data().all_reduce(x).wait();
  });
  for (const auto& spans : all) EXPECT_TRUE(spans.empty());
}

}  // namespace
}  // namespace trireme
