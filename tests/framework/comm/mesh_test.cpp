#include "framework/comm/mesh.h"

#include <gtest/gtest.h>

#include <map>

#include "framework/base/error.h"

namespace trireme {
namespace {

TEST(PieceBegin, CutsCeilPieces) {
  EXPECT_EQ(piece_begin(10, 4, 0), 0);
  EXPECT_EQ(piece_begin(10, 4, 1), 3);
  EXPECT_EQ(piece_begin(10, 4, 3), 9);
  EXPECT_EQ(piece_begin(10, 4, 4), 10);
  EXPECT_EQ(piece_begin(2, 8, 2), 2);
  EXPECT_EQ(piece_begin(2, 8, 7), 2);
  EXPECT_EQ(piece_begin(0, 3, 3), 0);
  const std::int64_t huge = std::int64_t{1} << 62;
  EXPECT_EQ(piece_begin(huge + 1, 4, 4), huge + 1);
  EXPECT_THROW(piece_begin(4, 2, 3), Error);
  EXPECT_THROW(piece_begin(4, 0, 0), Error);
}

TEST(MeshCoord, IsTensorFastestPipelineSlowest) {
  const MeshShape shape{.data = 2, .pipeline = 2, .tensor = 2};
  const MeshCoord at = coord_of(shape, 5);
  EXPECT_EQ(at.data, 0);
  EXPECT_EQ(at.pipeline, 1);
  EXPECT_EQ(at.tensor, 1);
  EXPECT_EQ(rank_prefix(shape, 5), "[rank 5: data 0, pipeline 1, tensor 1] ");
  for (const MeshShape& s : {MeshShape{3, 2, 4}, MeshShape{1, 1, 1}, MeshShape{2, 5, 1}})
    for (int rank = 0; rank < s.ranks(); ++rank) EXPECT_EQ(rank_of(s, coord_of(s, rank)), rank);
  EXPECT_THROW(coord_of(shape, 8), Error);
}

// Sums a distinct power of two per rank over `group`: the sum is the set of its members.
unsigned members_of(Communicator& group, int world_rank, Backend& backend) {
  double mine = 1u << world_rank;
  const Tensor x = backend.allocate({1}, DType::kF64, MemoryKind::kActivations);
  backend.upload(&mine, x);
  group.all_reduce(x).wait();
  backend.download(x, &mine);
  return static_cast<unsigned>(mine);
}

void expect_groups(const MeshShape& shape) {
  run_thread_ranks(shape.ranks(), {}, [&](Communicator& world) {
    const auto backend = make_reference_backend(std::make_shared<MemoryLedger>());
    Mesh mesh(world, shape);
    world.attach(*backend);  // groups share it
    const MeshCoord me = mesh.coord();
    unsigned data = 0, pipeline = 0, tensor = 0, ends = 0;
    for (int rank = 0; rank < shape.ranks(); ++rank) {
      const MeshCoord c = coord_of(shape, rank);
      const unsigned bit = 1u << rank;
      if (c.pipeline == me.pipeline && c.tensor == me.tensor) data |= bit;
      if (c.data == me.data && c.tensor == me.tensor) pipeline |= bit;
      if (c.data == me.data && c.pipeline == me.pipeline) tensor |= bit;
      const bool end = c.pipeline == 0 || c.pipeline == shape.pipeline - 1;
      if (end && c.data == me.data && c.tensor == me.tensor) ends |= bit;
    }
    EXPECT_EQ(members_of(mesh.data(), world.rank(), *backend), data);
    EXPECT_EQ(members_of(mesh.pipeline(), world.rank(), *backend), pipeline);
    EXPECT_EQ(members_of(mesh.tensor(), world.rank(), *backend), tensor);
    EXPECT_EQ(mesh.data().rank(), me.data);
    EXPECT_EQ(mesh.pipeline().rank(), me.pipeline);
    EXPECT_EQ(mesh.tensor().rank(), me.tensor);
    EXPECT_EQ(mesh.data().axis() + mesh.pipeline().axis() + mesh.tensor().axis(),
              "datapipelinetensor");
    const bool at_end =
        shape.pipeline > 1 && (me.pipeline == 0 || me.pipeline == shape.pipeline - 1);
    ASSERT_EQ(mesh.ends() != nullptr, at_end);
    if (!at_end) return;
    EXPECT_EQ(members_of(*mesh.ends(), world.rank(), *backend), ends);
    EXPECT_EQ(mesh.ends()->rank(), me.pipeline == 0 ? 0 : 1);
  });
}

TEST(Mesh, GroupsHoldTheRightRanks) {
  expect_groups({.data = 1, .pipeline = 1, .tensor = 1});
  expect_groups({.data = 2, .pipeline = 2, .tensor = 2});
  expect_groups({.data = 2, .pipeline = 3, .tensor = 1});
  expect_groups({.data = 1, .pipeline = 3, .tensor = 2});
  expect_groups({.data = 3, .pipeline = 1, .tensor = 2});
}

TEST(Mesh, KvReplicasAreNeighbours) {
  run_thread_ranks(8, {}, [](Communicator& world) {
    Mesh mesh(world, {.data = 2, .pipeline = 1, .tensor = 4});
    Communicator& replicas = mesh.kv_replicas(2);
    EXPECT_EQ(replicas.size(), 2);
    EXPECT_EQ(replicas.rank(), mesh.coord().tensor % 2);
    EXPECT_EQ(&mesh.kv_replicas(2), &replicas);
  });
  run_thread_ranks(4, {}, [](Communicator& world) {
    Mesh mesh(world, {.tensor = 4});
    EXPECT_EQ(mesh.kv_replicas(1).size(), 4);
    EXPECT_THROW(Mesh(world, {.tensor = 4}).kv_replicas(3), UsageError);
  });
  run_thread_ranks(4, {}, [](Communicator& world) {
    EXPECT_EQ(Mesh(world, {.tensor = 4}).kv_replicas(8).size(), 1);
  });
}

TEST(Mesh, RanksThatDoNotMatchAreRefusedWithTheNumbers) {
  const auto world = make_self_communicator();
  try {
    Mesh(*world, {.data = 2, .pipeline = 3, .tensor = 4});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "parallel.data = 2 x parallel.pipeline = 3 x parallel.tensor = 4 needs 24 ranks, "
                 "but there are 1");
  }
  EXPECT_THROW(Mesh(*world, {.data = 0}), UsageError);
}

TEST(UnderLauncher, ReadsTheLaunchersVariables) {
  const auto with = [](std::map<std::string, std::string> variables) {
    return under_launcher([&](const char* name) {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  };
  EXPECT_FALSE(with({}));
  EXPECT_FALSE(with({{"OMPI_COMM_WORLD_SIZE", ""}, {"PATH", "/bin"}}));
  EXPECT_TRUE(with({{"OMPI_COMM_WORLD_SIZE", "4"}}));
  EXPECT_TRUE(with({{"PMI_RANK", "0"}}));
  EXPECT_TRUE(with({{"PMI_SIZE", "2"}}));
  EXPECT_TRUE(with({{"PMIX_RANK", "1"}}));
  EXPECT_TRUE(with({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}));
  // A shell inside an allocation is no launcher.
  EXPECT_FALSE(with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}));
  EXPECT_FALSE(with({{"SLURM_STEP_ID", "0"},
                     {"SLURM_PROCID", "0"},
                     {"SLURM_STEP_NUM_TASKS", "1"},
                     {"SLURM_NTASKS", "8"}}));
}

}  // namespace
}  // namespace trireme
