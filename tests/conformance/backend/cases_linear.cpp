#include "framework/base/error.h"
#include "tests/conformance/backend/op_case.h"

namespace trireme::test {

namespace {

struct MatmulCase {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate, bias;
  Type c;
};

OpCase matmul_case(const MatmulCase& p) {
  OpCase op(join("matmul ", p.m, "x", p.n, "x", p.k, p.transpose_a ? " transpose_a" : "",
                 p.transpose_b ? " transpose_b" : "", p.accumulate ? " accumulate" : "",
                 p.bias ? " bias" : "", p.c == Type::kWide ? " wide" : ""));
  const auto a = op.in(p.transpose_a ? Shape{p.k, p.m} : Shape{p.m, p.k});
  const auto b = op.in(p.transpose_b ? Shape{p.n, p.k} : Shape{p.k, p.n});
  const auto c = p.accumulate ? op.both({p.m, p.n}, p.c) : op.out({p.m, p.n}, p.c);
  const auto bias = p.bias ? op.in({p.n}, Type::kWide) : a;
  return std::move(op).calls([=](Backend& backend, Tensors t) {
    backend.kernels()->matmul({.a = t[a],
                               .b = t[b],
                               .c = t[c],
                               .transpose_a = p.transpose_a,
                               .transpose_b = p.transpose_b,
                               .accumulate = p.accumulate,
                               .bias = p.bias ? t[bias] : Tensor()});
  });
}

OpCase column_sum_case(std::int64_t rows, std::int64_t columns, bool accumulate) {
  OpCase op(join("column_sum ", rows, "x", columns, accumulate ? " accumulate" : ""));
  const auto dy = op.in({rows, columns});
  const auto out = accumulate ? op.both({columns}, Type::kWide) : op.out({columns}, Type::kWide);
  return std::move(op).calls([=](Backend& backend, Tensors t) {
    backend.train_kernels()->column_sum(t[dy], t[out], accumulate);
  });
}

OpCase add_bias_case(std::int64_t rows, std::int64_t columns) {
  OpCase op(join("add_bias ", rows, "x", columns));
  const auto bias = op.in({columns}, Type::kWide);
  const auto y = op.both({rows, columns});
  return std::move(op).calls(
      [=](Backend& backend, Tensors t) { backend.kernels()->add_bias(t[bias], t[y]); });
}

}  // namespace

std::vector<OpCase> linear_cases() {
  std::vector<OpCase> cases;
  for (bool transpose_a : {false, true})
    for (bool transpose_b : {false, true})
      for (bool accumulate : {false, true})
        for (Type c : {Type::kCompute, Type::kWide})
          cases.push_back(matmul_case({5, 33, 17, transpose_a, transpose_b, accumulate, false, c}));
  cases.push_back(matmul_case({64, 96, 48, false, true, false, true, Type::kCompute}));
  cases.push_back(matmul_case({7, 13, 9, false, true, false, true, Type::kWide}));
  cases.push_back(matmul_case({1, 1, 1, false, false, false, false, Type::kCompute}));
  cases.push_back(matmul_case({1, 70, 130, false, true, false, false, Type::kCompute}));
  cases.push_back(matmul_case({3, 0, 4, false, true, false, false, Type::kCompute}));
  cases.push_back(matmul_case({0, 3, 4, false, true, false, true, Type::kCompute}));
  cases.push_back(matmul_case({2, 3, 0, false, true, true, false, Type::kWide}));
  for (bool accumulate : {false, true}) {
    cases.push_back(column_sum_case(9, 35, accumulate));
    cases.push_back(column_sum_case(70, 64, accumulate));
  }
  cases.push_back(add_bias_case(5, 35));
  cases.push_back(add_bias_case(1, 1));
  return cases;
}

}  // namespace trireme::test
