// One rank's door to oneDNN: matrix products from plain strided buffers, primitives cached by
// problem.
//
// Owns the engine, the stream and the cache; used from the rank's thread only. Scratch memory is
// the caller's, so nothing is allocated behind the ledger's back. oneDNN failures become Error.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>

#include "framework/base/dtype.h"

namespace trireme {

// c (M, N) = a (M, K) x b (K, N) [+ bias (N)] [+ c]. Strides are in elements.
struct MatmulProblem {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 0, b_row = 0, b_column = 0, c_row = 0;
  DType operands = DType::kF32, result = DType::kF32, bias = DType::kF32;
  bool has_bias = false, accumulate = false;
  auto operator<=>(const MatmulProblem&) const = default;
};

class DnnlMatmul {
 public:
  explicit DnnlMatmul(int threads);
  ~DnnlMatmul();

  // Bytes of scratch that run() needs for this problem.
  std::int64_t scratch_bytes(const MatmulProblem& problem);
  void run(const MatmulProblem& problem, const void* a, const void* b, const void* bias, void* c,
           void* scratch);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
