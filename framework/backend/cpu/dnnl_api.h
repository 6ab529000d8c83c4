// What differs between the v2 and v3 C++ interfaces of oneDNN; CMake compiles dnnl_v2.cpp or
// dnnl_v3.cpp.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace trireme {

// `bias` is a zero descriptor when there is none.
dnnl::matmul::primitive_desc describe_matmul(const dnnl::engine& engine,
                                             const dnnl::memory::desc& a,
                                             const dnnl::memory::desc& b,
                                             const dnnl::memory::desc& bias,
                                             const dnnl::memory::desc& c,
                                             const dnnl::primitive_attr& attributes);

}  // namespace trireme
