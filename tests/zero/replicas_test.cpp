// What is compared, what it costs, and who is blamed.
#include "zero/replicas.h"

#include <gtest/gtest.h>

#include "framework/backend/fingerprint.h"
#include "framework/backend/reference_backend.h"
#include "tests/zero/toys.h"
#include "zero/replica_verdict.h"

namespace trireme::test {
namespace {

// Counts calls that touch device memory.
class CountingBackend : public ReferenceBackend {
 public:
  using ReferenceBackend::ReferenceBackend;
  void begin_access() override { ++calls; }
  int calls = 0;
};

// Calls of three steps of a unit at a stage, on rank 0.
int calls_of_steps(int ranks, const MeshShape& shape, int stage, bool check_replicas) {
  int calls = 0;
  run_thread_ranks(ranks, {.timeout_seconds = 60}, [&](Communicator& world) {
    CountingBackend backend(std::make_shared<MemoryLedger>());
    world.attach(backend);
    Mesh mesh(world, shape);
    UnitOptions options = toy_options(DType::kF64);
    options.policy = policy_of(stage);
    // Tensor ranks hold different tensors.
    ToyUnit toy({toy_spec(join("w", mesh.coord().tensor), 40)}, backend, mesh.data(), options);
    ZeroOptions zero = sgd(0.1);
    zero.check_replicas = check_replicas;
    ZeroOptimizer optimizer({&toy.unit()}, backend, mesh, zero);
    const int before = backend.calls;
    for (int step = 0; step < 3; ++step) {
      toy.backward({std::vector<double>(40, 1.0)});
      optimizer.step({});
    }
    if (world.rank() == 0) calls = backend.calls - before;
    world.barrier();
  });
  return calls;
}

TEST(Replicas, CostNothingWhereNothingHasCopies) {
  struct Case {
    int ranks;
    MeshShape mesh;
    int stage;
    bool copies;
  };
  for (const Case& c : {Case{1, {}, 0, false}, Case{2, {.tensor = 2}, 0, false},
                        Case{2, {.data = 2}, 3, false}, Case{4, {.data = 2, .tensor = 2}, 3, false},
                        Case{2, {.data = 2}, 0, true}, Case{2, {.data = 2}, 1, true}}) {
    SCOPED_TRACE(join(c.ranks, " ranks, stage ", c.stage));
    const int without = calls_of_steps(c.ranks, c.mesh, c.stage, false);
    const int with = calls_of_steps(c.ranks, c.mesh, c.stage, true);
    EXPECT_GT(without, 0);
    if (c.copies)
      EXPECT_GT(with, without);
    else
      EXPECT_EQ(with, without);
  }
}

TEST(Replicas, OffMeansThatADriftGoesUnseen) {
  for (const bool check_replicas : {true, false})
    on_ranks(2, [&](Communicator& world, Backend& backend) {
      Mesh mesh(world, {.data = 2});
      ToyUnit toy({toy_spec("w", 40)}, backend, mesh.data());
      ZeroOptions zero = sgd(0.1);
      zero.check_replicas = check_replicas;
      ZeroOptimizer optimizer({&toy.unit()}, backend, mesh, zero);
      if (world.rank() == 1) toy.unit().weights().put(7, std::vector<double>{1.5});
      toy.backward({std::vector<double>(40, 1.0)});
      const auto step = [&] { optimizer.step({.number = 9}); };
      if (check_replicas)
        EXPECT_THROW(step(), Error);
      else
        EXPECT_NO_THROW(step());
    });
}

// Padding at the end of the buffer is nobody's.
TEST(Replicas, PaddingIsNotCompared) {
  on_ranks(2, [&](Communicator& world, Backend& backend) {
    Mesh mesh(world, {.data = 2});
    ToyUnit toy({toy_spec("w", 5)}, backend, mesh.data());
    ZeroOptimizer optimizer({&toy.unit()}, backend, mesh, sgd(0.1));
    ASSERT_GT(toy.unit().layout().padded(), 5);
    if (world.rank() == 1) toy.unit().weights().put(5, std::vector<double>{1.5});
    toy.backward({std::vector<double>(5, 1.0)});
    EXPECT_NO_THROW(optimizer.step({}));
  });
}

// A table that two stages keep at different places of buffers of different lengths, cut over data
// ranks: parts of unlike cuts still add up.
TEST(Replicas, CopiesMayBeCutUnlike) {
  for (const bool drifts : {false, true})
    on_ranks(4, [&](Communicator& world, Backend& backend) {
      Mesh mesh(world, {.data = 2, .pipeline = 2});
      const bool first = mesh.coord().pipeline == 0;
      const ParameterSpec table = toy_spec("table", 21, SumGroup::kNone, first);
      UnitOptions options = toy_options(DType::kF64);
      options.policy = policy_of(3);
      const std::vector<ParameterSpec> specs =
          first ? std::vector<ParameterSpec>{toy_spec("a", 30), table}
                : std::vector<ParameterSpec>{table, toy_spec("b", 3)};
      ToyUnit toy(specs, backend, mesh.data(), options);
      ZeroOptimizer optimizer({&toy.unit()}, backend, mesh, sgd(0.1));
      const std::int64_t at = toy.unit().layout().offset(first ? 1 : 0) + 20;
      if (drifts && !first) toy.unit().weights().put(at, std::vector<double>{1.5});  // on its owner
      const auto step = [&] {
        if (first)
          toy.backward({std::vector<double>(30, 1.0), std::vector<double>(21, 1.0)});
        else
          toy.backward({std::vector<double>(21, 1.0), std::vector<double>(3, 1.0)});
        optimizer.step({});
      };
      if (drifts)
        EXPECT_THROW(step(), Error);
      else
        EXPECT_NO_THROW(step());
    });
}

ReplicaRecord record(int rank, std::uint64_t fingerprint, std::uint64_t id = 1, int shards = 1,
                     std::int64_t first = 0) {
  return {.id = id,
          .fingerprint = fingerprint,
          .first = first,
          .elements = 10,
          .shards = shards,
          .rank = rank};
}

TEST(Replicas, TheMinorityIsBlamed) {
  const MeshShape mesh{.data = 4};
  EXPECT_FALSE(judge_replicas({record(0, 5), record(1, 5), record(2, 5)}, mesh).found);
  const ReplicaVerdict one = judge_replicas({record(0, 5), record(1, 6), record(2, 5)}, mesh);
  EXPECT_EQ(one.suspects, std::vector<int>{1});
  EXPECT_EQ(one.sentence,
            "rank 1 (data 1, pipeline 0, tensor 0) holds other bits than 2 equal copies; 1 of 1 "
            "arrays with copies differs");
  EXPECT_EQ(judge_replicas({record(0, 5), record(1, 6)}, mesh).suspects, (std::vector<int>{0, 1}));
  EXPECT_EQ(judge_replicas({record(0, 5), record(1, 6), record(2, 5), record(3, 6)}, mesh).suspects,
            (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(judge_replicas({record(0, 5), record(1, 6), record(2, 7), record(3, 5)}, mesh).suspects,
            (std::vector<int>{0, 1, 2, 3}));
}

TEST(Replicas, TheRankOfADifferingShardIsBlamed) {
  const MeshShape mesh{.data = 6};  // three replicas of two shards
  std::vector<ReplicaRecord> records;
  for (int rank = 0; rank < 6; ++rank)
    records.push_back(record(rank, rank == 3 ? 8 : rank % 2 == 0 ? 5 : 7, 1, 2, rank % 2 * 10));
  EXPECT_EQ(judge_replicas(records, mesh).suspects, std::vector<int>{3});
}

TEST(Replicas, OfSeveralArraysTheFirstIsNamedAndAllAreCounted) {
  const MeshShape mesh{.data = 2};
  const ReplicaVerdict verdict =
      judge_replicas({record(0, 1, 10), record(0, 2, 11), record(0, 3, 12), record(1, 1, 10),
                      record(1, 9, 11), record(1, 8, 12)},
                     mesh);
  EXPECT_EQ(verdict.record.id, 11u);
  EXPECT_NE(verdict.sentence.find("2 of 3 arrays with copies differ"), std::string::npos);
}

}  // namespace
}  // namespace trireme::test
