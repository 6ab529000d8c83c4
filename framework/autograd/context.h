// What one forward call knows besides its input. A value per micro-batch; fields are independent,
// none stands for another.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/autograd/tape.h"
#include "framework/autograd/var.h"
#include "framework/backend/backend.h"

namespace trireme {

class InferencePass;  // framework/autograd/inference_pass.h

// What the last list entry compares with, and where its loss goes.
struct LossTarget {
  Tensor labels;    // (rows of the head) i32; < 0 = the row does not count
  double seed = 0;  // d objective / d loss of one row: loss scale / global number of counted rows
  double smoothing = 0;  // label smoothing
  Tensor
      total;  // (1) f64: the sum of row losses is added here. With a tape this happens in backward.
  // (rows of the head, 3) wide, or undefined; without a tape only. Filled with the sums of each row
  // that Kernels::cross_entropy_sums describes, over all shards.
  Tensor sums;
};

struct Context {
  Backend& backend;
  Tape* tape = nullptr;            // record for backward, or not
  std::optional<RngKey> rng = {};  // dropout is on, with this key (seed and attempted step)
  std::int64_t samples = 1;        // of this micro-batch
  std::int64_t tokens = 1;         // per sample
  std::int64_t first_sample = 0;   // global index of the first one, for dropout counters
  // (rows of the micro-batch) i32, or undefined: where each row's document begins (see Attention),
  // if attention and learned positions begin anew there.
  Tensor document_starts = {};
  bool sequence_parallel = false;     // rows between the linears are sharded over the tensor ranks
  bool remake_cheap_outputs = false;  // selective recomputation of norm and activation outputs
  bool recomputing = false;           // this pass is run again for backward, which follows at once
  DType compute = DType::kF32;        // type of matmul operands
  const LossTarget* target = nullptr;
  // Set: rows are tokens of several sequences whose earlier keys and values are cached; no tape.
  InferencePass* inference = nullptr;

  std::int64_t rows() const { return samples * tokens; }
  // Type of the residual stream: never narrower than f32.
  DType wide() const { return accumulation_type(compute); }
};

}  // namespace trireme
