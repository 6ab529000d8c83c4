// What a backend without an order of its own says.
#include "framework/backend/infer_kernels.h"
#include "framework/base/error.h"

namespace trireme {

namespace {

[[noreturn]] void no_order(const Tensor& w) {
  fail("tiled weights: this backend multiplies a weight of ", w.shape(), " of ", name_of(w.dtype()),
       " by rows; ask tiles() first");
}

}  // namespace

bool InferKernels::tiles(const Tensor&) const { return false; }
void InferKernels::tile(const Tensor& w) { no_order(w); }
void InferKernels::tiled_linear(const Tensor&, const Tensor& w, const Tensor&, const Tensor&) {
  no_order(w);
}
void InferKernels::tiled_lookup(const Tensor&, const Tensor& table, std::int64_t, const Tensor&) {
  no_order(table);
}

}  // namespace trireme
