#include "framework/backend/cpu/dnnl_api.h"

namespace trireme {

dnnl::matmul::primitive_desc describe_matmul(const dnnl::engine& engine,
                                             const dnnl::memory::desc& a,
                                             const dnnl::memory::desc& b,
                                             const dnnl::memory::desc& bias,
                                             const dnnl::memory::desc& c,
                                             const dnnl::primitive_attr& attributes) {
  if (bias == dnnl::memory::desc())
    return dnnl::matmul::primitive_desc(engine, a, b, c, attributes);
  return dnnl::matmul::primitive_desc(engine, a, b, bias, c, attributes);
}

}  // namespace trireme
