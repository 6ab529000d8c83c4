// The 3D arrangement of ranks: rank = tensor + t * (data + d * pipeline). Rank 5 of 2x2x2 is data
// 0, pipeline 1, tensor 1.
//
// A Mesh owns the groups split from one world communicator, made in the same order on all ranks.
// Megatron-LM's order (arXiv 2104.04473): tensor innermost, pipeline outermost.
#pragma once

#include <memory>
#include <string>

#include "framework/comm/communicator.h"

namespace trireme {

struct MeshShape {
  int data = 1, pipeline = 1, tensor = 1;
  int ranks() const { return data * pipeline * tensor; }
};

struct MeshCoord {
  int data = 0, pipeline = 0, tensor = 0;
};

MeshCoord coord_of(const MeshShape& shape, int rank);
int rank_of(const MeshShape& shape, const MeshCoord& coord);
// "[rank 5: data 0, pipeline 1, tensor 1] "
std::string rank_prefix(const MeshShape& shape, int rank);

// The data ranks of a (pipeline, tensor) coordinate in two levels (hybrid sharding): a rank shares
// out its states with `shards`, and `replicas` are the ranks with the same shard in other groups.
struct DataGroups {
  Communicator* shards = nullptr;
  Communicator* replicas = nullptr;  // null: one group, nothing is replicated
};

class Mesh {
 public:
  // Splits `world`, which must outlive the mesh. Throws UsageError when world.size() is not data *
  // pipeline * tensor, naming the numbers and the keys parallel.data, parallel.pipeline,
  // parallel.tensor.
  Mesh(Communicator& world, const MeshShape& shape);

  const MeshShape& shape() const { return shape_; }
  const MeshCoord& coord() const { return coord_; }
  Communicator& world() const { return world_; }
  Communicator& data() const { return *data_; }          // ranks with equal (pipeline, tensor)
  Communicator& pipeline() const { return *pipeline_; }  // ranks with equal (data, tensor)
  Communicator& tensor() const { return *tensor_; }      // ranks with equal (data, pipeline)
  // {first, last} pipeline rank of this (data, tensor): sums of tied embeddings. Null on stages
  // between, and when pipeline == 1.
  Communicator* ends() const { return ends_.get(); }
  // Tensor ranks that hold the same kv head, when kv_heads < tensor: groups of tensor / kv_heads
  // neighbours. Made on request, once, collectively; a group of size 1 otherwise.
  Communicator& kv_replicas(int kv_heads);
  // Groups of `shard_ranks` neighbours on the data axis; 0 or all of them: the data axis itself.
  // Made on request, once, collectively. Throws UsageError when shard_ranks does not divide the
  // axis.
  DataGroups data_groups(int shard_ranks);

 private:
  MeshShape shape_;
  MeshCoord coord_;
  Communicator& world_;
  std::unique_ptr<Communicator> data_, pipeline_, tensor_, ends_, kv_replicas_, shards_, replicas_;
};

}  // namespace trireme
