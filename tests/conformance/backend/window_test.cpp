// Keys that no query sees, of a sliding window or of another document, are never read: a NaN among
// them reaches nobody, in tiles that are cut as in those that are skipped whole.
#include <cmath>
#include <limits>

#include "tests/conformance/backend/backends.h"
#include "tests/support/tensors.h"

namespace trireme::test {
namespace {

constexpr std::int64_t kTokens = 320, kDim = 16, kWindow = 70, kBad = 64;  // tokens that are NaN

void expect_untouched(Backend& backend, DType dtype, bool document) {
  Attention a = {.batch = 1,
                 .tokens = kTokens,
                 .heads = 1,
                 .kv_heads = 1,
                 .head_dim = kDim,
                 .scale = 0.25,
                 .window = document ? 0 : kWindow};
  std::vector<std::int32_t> starts(kTokens, 0);
  std::fill(starts.begin() + 80, starts.end(), 80);
  if (document) a.document_starts = ids(backend, starts);
  std::vector<double> x = normals(kTokens * 3 * kDim, 1);
  std::fill_n(x.begin(), kBad * 3 * kDim, std::numeric_limits<double>::quiet_NaN());
  const Tensor qkv = tensor(backend, {kTokens, 3 * kDim}, dtype, x);
  const Tensor dout = tensor(backend, {kTokens, kDim}, dtype, normals(kTokens * kDim, 2));
  const auto make = [&](Shape shape, DType type) {
    return backend.allocate(shape, type, MemoryKind::kActivations);
  };
  const Tensor out = make({kTokens, kDim}, dtype), dqkv = make({kTokens, 3 * kDim}, dtype);
  const Tensor lse = make({1, kTokens}, accumulation_type(dtype));
  backend.kernels()->attention(a, qkv, out, lse);
  backend.train_kernels()->attention_backward(a, qkv, out, lse, dout, dqkv);
  // Blocks of 64 queries see blocks of keys: those from 192 on, none of the first block.
  const std::vector<double> y = values(backend, out), dx = values(backend, dqkv);
  for (std::int64_t t = 192; t < kTokens; ++t)
    for (std::int64_t d = 0; d < kDim; ++d)
      ASSERT_TRUE(std::isfinite(y[static_cast<std::size_t>(t * kDim + d)])) << "token " << t;
  for (std::int64_t t = 192; t < kTokens; ++t)
    for (std::int64_t d = 0; d < 3 * kDim; ++d)
      ASSERT_TRUE(std::isfinite(dx[static_cast<std::size_t>(t * 3 * kDim + d)])) << "token " << t;
}

TEST(SlidingWindow, TilesOutsideAreSkipped) {
  for (const Target& target : all_targets()) {
    std::string why;
    const auto backend = make(target, why);
    if (!backend) continue;
    SCOPED_TRACE(text(target));
    for (const bool document : {false, true}) expect_untouched(*backend, target.compute, document);
  }
}

}  // namespace
}  // namespace trireme::test
