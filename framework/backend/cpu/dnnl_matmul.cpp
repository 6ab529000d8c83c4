#include "framework/backend/cpu/dnnl_matmul.h"

#include <omp.h>

#include <map>

#include "framework/backend/backend.h"
#include "framework/backend/cpu/dnnl_api.h"
#include "framework/base/error.h"

namespace trireme {

namespace {

using dnnl::memory;

memory::data_type type_of(DType dtype) {
  return dtype == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
}

// Bounds the primitives kept: serving meets a new M with every prompt length.
constexpr std::size_t kMostPrimitives = 1024;

struct Plan {
  memory::desc a, b, bias, c, scratch;
  dnnl::matmul primitive;
};

Plan make_plan(const dnnl::engine& engine, const MatmulProblem& p) {
  Plan plan;
  plan.a = memory::desc({p.m, p.k}, type_of(p.operands), memory::dims{p.a_row, p.a_column});
  plan.b = memory::desc({p.k, p.n}, type_of(p.operands), memory::dims{p.b_row, p.b_column});
  plan.c = memory::desc({p.m, p.n}, type_of(p.result), memory::dims{p.c_row, 1});
  if (p.has_bias) plan.bias = memory::desc({1, p.n}, type_of(p.bias), memory::dims{p.n, 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (p.accumulate) {
    dnnl::post_ops operations;
    operations.append_sum(1.0f);
    attributes.set_post_ops(operations);
  }
  const auto description = describe_matmul(engine, plan.a, plan.b, plan.bias, plan.c, attributes);
  plan.scratch = description.scratchpad_desc();
  plan.primitive = dnnl::matmul(description);
  return plan;
}

}  // namespace

struct DnnlMatmul::State {
  explicit State(int count) : threads(count) {}

  int threads;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<MatmulProblem, Plan> plans;

  const Plan& plan(const MatmulProblem& p) {
    // Primitives are built for, and run with, the calling thread's OpenMP team size.
    omp_set_num_threads(threads);
    if (const auto found = plans.find(p); found != plans.end()) return found->second;
    if (plans.size() >= kMostPrimitives) plans.clear();
    try {
      return plans.emplace(p, make_plan(engine, p)).first->second;
    } catch (const dnnl::error& error) {
      fail("matmul: oneDNN cannot multiply (", p.m, ", ", p.k, ") x (", p.k, ", ", p.n, ") of ",
           name_of(p.operands), " into ", name_of(p.result), ": ", error.what());
    }
  }
};

DnnlMatmul::DnnlMatmul(int threads) : state_(new State(threads)) {}
DnnlMatmul::~DnnlMatmul() = default;

std::int64_t DnnlMatmul::scratch_bytes(const MatmulProblem& problem) {
  return static_cast<std::int64_t>(state_->plan(problem).scratch.get_size());
}

void DnnlMatmul::run(const MatmulProblem& problem, const void* a, const void* b, const void* bias,
                     void* c, void* scratch) {
  const Plan& plan = state_->plan(problem);
  const auto over = [&](const memory::desc& desc, const void* data) {
    return memory(desc, state_->engine, const_cast<void*>(data));
  };
  std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, over(plan.a, a)},
                                            {DNNL_ARG_WEIGHTS, over(plan.b, b)},
                                            {DNNL_ARG_DST, over(plan.c, c)},
                                            {DNNL_ARG_SCRATCHPAD, over(plan.scratch, scratch)}};
  if (problem.has_bias) arguments.emplace(DNNL_ARG_BIAS, over(plan.bias, bias));
  try {
    plan.primitive.execute(state_->stream, arguments);
    state_->stream.wait();
  } catch (const dnnl::error& error) {
    fail("matmul: oneDNN failed on (", problem.m, ", ", problem.k, ") x (", problem.k, ", ",
         problem.n, "): ", error.what());
  }
}

bool cpu_multiplies_bf16() {
  // What oneDNN itself may use: its view honours ONEDNN_MAX_CPU_ISA, and lists instruction sets in
  // ascending bits.
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto needed = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (isa & needed) == needed && __builtin_cpu_supports("avx512bf16");
}

}  // namespace trireme
