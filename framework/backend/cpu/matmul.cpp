// Matrix products through oneDNN, straight from plain row-major buffers.
#include "framework/backend/cpu/cpu_kernels.h"
#include "framework/backend/kernel_checks.h"
#include "framework/base/error.h"

namespace trireme {

namespace {

// K = 0: the sum is empty.
void empty_product(CpuKernels& kernels, const Matmul& m) {
  if (m.accumulate) return;
  kernels.fill(m.c, 0.0);
  if (m.bias) kernels.add_bias(m.bias, m.c);
}

}  // namespace

void CpuKernels::matmul(const Matmul& m) {
  const auto extents = kernel_checks::matmul(m);
  refuse_f64("matmul", m.a, m.c, m.bias);
  check(m.a.dtype() == DType::kF32 || (m.a.dtype() == DType::kBF16 && bf16_),
        "matmul: this CPU multiplies f32 only (bf16 needs AVX-512 with bf16), got operands of ",
        name_of(m.a.dtype()), "; use precision.compute = f32");
  if (m.c.elements() == 0) return;
  if (extents.k == 0) return empty_product(*this, m);

  Tensor bias = m.bias;
  if (bias && bias.dtype() != DType::kF32 && bias.dtype() != m.a.dtype()) {
    bias = floats(extents.n);
    cast(m.bias, bias);
  }
  MatmulProblem p{.m = extents.m, .n = extents.n, .k = extents.k};
  p.a_row = m.transpose_a ? 1 : extents.k;
  p.a_column = m.transpose_a ? extents.m : 1;
  p.b_row = m.transpose_b ? 1 : extents.n;
  p.b_column = m.transpose_b ? extents.k : 1;
  p.c_row = extents.n;
  p.operands = m.a.dtype();
  p.result = m.c.dtype();
  p.has_bias = bias.defined();
  p.bias = bias ? bias.dtype() : DType::kF32;
  p.accumulate = m.accumulate;
  const std::int64_t scratch = dnnl_.scratch_bytes(p);
  if (scratch > 0 && (!scratch_ || scratch_.bytes() < scratch)) {
    scratch_ = {};
    scratch_ = owner_.allocate({scratch}, DType::kU8, MemoryKind::kWorkspace);
  }
  dnnl_.run(p, m.a.data(), m.b.data(), bias.data(), m.c.data(), scratch_.data());
}

}  // namespace trireme
