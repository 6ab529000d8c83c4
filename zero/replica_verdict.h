// Who is wrong when copies differ: pure arithmetic over what all ranks told.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/comm/mesh.h"

namespace trireme {

// The fingerprint of what one rank holds of a rectangle of one array.
struct ReplicaRecord {
  std::uint64_t id = 0, fingerprint = 0;
  std::int64_t first = 0, elements = 0;  // of the rectangle, row-major
  int shards = 1;                        // neighbours on the data axis that make up one copy
  int rank = 0;                          // of the world
  std::uint64_t part = 0;                // number of that part on its rank
};

struct ReplicaVerdict {
  bool found = false;
  ReplicaRecord record;       // the first one of the array that is spoken of
  std::vector<int> suspects;  // ranks of the minority, or of all copies when there is no majority
  // "rank 1 (data 1, pipeline 0, tensor 0) holds other bits than 3 equal copies; ..."
  std::string sentence;
};

// `records` by rank, in the order of the ranks' parts. Of several arrays that differ the first is
// spoken of, the others are counted. Where a copy is cut over ranks, those whose part differs from
// that of a good copy are named; if no good copy is cut alike, all of them.
ReplicaVerdict judge_replicas(const std::vector<ReplicaRecord>& records, const MeshShape& mesh);

}  // namespace trireme
