#include "framework/comm/mesh.h"

#include "framework/base/error.h"

namespace trireme {

MeshCoord coord_of(const MeshShape& shape, int rank) {
  check(rank >= 0 && rank < shape.ranks(), "mesh: rank ", rank, " is not one of 0 to ",
        shape.ranks() - 1);
  return {.data = rank / shape.tensor % shape.data,
          .pipeline = rank / (shape.tensor * shape.data),
          .tensor = rank % shape.tensor};
}

int rank_of(const MeshShape& shape, const MeshCoord& coord) {
  return coord.tensor + shape.tensor * (coord.data + shape.data * coord.pipeline);
}

std::string rank_prefix(const MeshShape& shape, int rank) {
  const MeshCoord at = coord_of(shape, rank);
  return join("[rank ", rank, ": data ", at.data, ", pipeline ", at.pipeline, ", tensor ",
              at.tensor, "] ");
}

namespace {

const MeshShape& checked(const MeshShape& shape, int ranks) {
  if (shape.data < 1 || shape.pipeline < 1 || shape.tensor < 1)
    throw UsageError(join("parallel.data = ", shape.data, ", parallel.pipeline = ", shape.pipeline,
                          ", parallel.tensor = ", shape.tensor, ": each must be at least 1"));
  if (shape.ranks() != ranks)
    throw UsageError(join("parallel.data = ", shape.data, " x parallel.pipeline = ", shape.pipeline,
                          " x parallel.tensor = ", shape.tensor, " needs ", shape.ranks(),
                          " ranks, but there are ", ranks));
  return shape;
}

}  // namespace

Mesh::Mesh(Communicator& world, const MeshShape& shape)
    : shape_(checked(shape, world.size())), coord_(coord_of(shape, world.rank())), world_(world) {
  const int d = shape.data, t = shape.tensor, p = shape.pipeline;
  data_ = world.split(coord_.tensor + t * coord_.pipeline, coord_.data, "data");
  pipeline_ = world.split(coord_.tensor + t * coord_.data, coord_.pipeline, "pipeline");
  tensor_ = world.split(coord_.data + d * coord_.pipeline, coord_.tensor, "tensor");
  if (p == 1) return;
  const bool at_end = coord_.pipeline == 0 || coord_.pipeline == p - 1;
  ends_ = world.split(at_end ? coord_.tensor + t * coord_.data : -1, coord_.pipeline, "ends");
}

Communicator& Mesh::kv_replicas(int kv_heads) {
  if (kv_replicas_) return *kv_replicas_;
  const int t = shape_.tensor;
  if (kv_heads < 1 || (kv_heads < t ? t % kv_heads : kv_heads % t) != 0)
    throw UsageError(join(kv_heads, " key/value heads (model.kv_heads) cannot be laid over ", t,
                          " tensor ranks (parallel.tensor): one must divide the other"));
  const int replicas = kv_heads < t ? t / kv_heads : 1;
  kv_replicas_ = tensor_->split(coord_.tensor / replicas, coord_.tensor, "kv_replicas");
  return *kv_replicas_;
}

DataGroups Mesh::data_groups(int shard_ranks) {
  if (shard_ranks == 0 || shard_ranks == shape_.data) return {data_.get(), nullptr};
  if (shard_ranks < 0 || shape_.data % shard_ranks != 0)
    throw UsageError(join("zero.shard_ranks = ", shard_ranks, " does not divide the ", shape_.data,
                          " data ranks (parallel.data)"));
  if (!shards_) {
    shards_ = data_->split(coord_.data / shard_ranks, coord_.data, "shards");
    replicas_ = data_->split(coord_.data % shard_ranks, coord_.data, "replicas");
  }
  return {shards_.get(), replicas_.get()};
}

}  // namespace trireme
