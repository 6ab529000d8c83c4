// What a list entry moves over the tensor ranks for one micro-batch: data beside the modules that
// move it, so that a formula of the traffic needs no knowledge of any layer.
//
// A sum of a (rows, columns) matrix is Megatron's g and f: an all_reduce of whole rows, or a
// reduce_scatter where sequence parallelism cuts the rows; a gather of rows then undoes the cut
// (arXiv 1909.08053, section 3; arXiv 2205.05198, section 4.2). On one tensor rank nothing moves.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

struct TensorMove {
  enum class Kind : std::uint8_t {
    kSum,         // all_reduce, or reduce_scatter of cut rows
    kGatherRows,  // nothing, or all_gather of cut rows
    kAllReduce    // all_reduce of whole rows either way
  };
  Kind kind = Kind::kSum;
  std::int64_t rows_per_sample = 0;  // of the whole matrix
  std::int64_t columns = 0;
  bool wide = false;            // in the accumulation type, else in the compute type
  std::int64_t chunk_rows = 0;  // all_reduces take so many rows at a time; 0 = all at once
};

// Of a training step. A recomputed entry moves `forward` once more in its backward.
struct TensorMoves {
  std::vector<TensorMove> forward, backward;
  TensorMoves& operator+=(const TensorMoves& other);
};

// A column linear into a row linear: (R, inputs) -> (R, outputs). The shard of x is what is kept,
// so backward gathers it again.
TensorMoves linear_pair_moves(std::int64_t rows_per_sample, std::int64_t inputs,
                              std::int64_t outputs);
// Vocabulary-parallel embedding and head. The head's forward does nothing in training: backward
// makes loss and gradients, chunk by chunk.
TensorMoves embedding_moves(std::int64_t rows_per_sample, std::int64_t columns);
TensorMoves head_moves(std::int64_t rows_per_sample, std::int64_t columns, std::int64_t chunk_rows);

}  // namespace trireme
