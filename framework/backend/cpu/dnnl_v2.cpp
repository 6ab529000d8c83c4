#include "framework/backend/cpu/dnnl_api.h"

namespace trireme {

dnnl::matmul::primitive_desc describe_matmul(const dnnl::engine& engine,
                                             const dnnl::memory::desc& a,
                                             const dnnl::memory::desc& b,
                                             const dnnl::memory::desc& bias,
                                             const dnnl::memory::desc& c,
                                             const dnnl::primitive_attr& attributes) {
  const auto operation = bias == dnnl::memory::desc() ? dnnl::matmul::desc(a, b, c)
                                                      : dnnl::matmul::desc(a, b, bias, c);
  return dnnl::matmul::primitive_desc(operation, attributes, engine);
}

}  // namespace trireme
