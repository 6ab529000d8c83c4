#include "framework/base/error.h"
#include "tests/conformance/backend/op_case.h"

namespace trireme::test {

namespace {

struct NormCase {
  std::int64_t rows, columns;
  Type x, dx;
  bool accumulate_dx, accumulate;
};

std::string text(const NormCase& p) {
  return join(p.rows, "x", p.columns, p.x == Type::kWide ? " wide x" : "",
              p.dx == Type::kWide ? " wide dx" : "", p.accumulate_dx ? " accumulate_dx" : "",
              p.accumulate ? " accumulate" : "");
}

std::size_t gradient(OpCase& op, Shape shape, Type type, bool accumulate) {
  return accumulate ? op.both(shape, type) : op.out(shape, type);
}

// Forward, then backward with the statistics that forward left.
OpCase layer_norm_case(const NormCase& p) {
  OpCase op("layer_norm " + text(p));
  const auto x = op.in({p.rows, p.columns}, p.x);
  const auto weight = op.in({p.columns}), bias = op.in({p.columns}, Type::kWide);
  const auto dy = op.in({p.rows, p.columns});
  const auto y = op.out({p.rows, p.columns}), stats = op.out({p.rows, 2}, Type::kWide);
  const auto dx = gradient(op, {p.rows, p.columns}, p.dx, p.accumulate_dx);
  const auto dweight = gradient(op, {p.columns}, Type::kWide, p.accumulate);
  const auto dbias = gradient(op, {p.columns}, Type::kCompute, p.accumulate);
  return std::move(op).calls([=](Backend& backend, Tensors t) {
    backend.kernels()->layer_norm(t[x], t[weight], t[bias], 1e-5, t[y], t[stats]);
    backend.train_kernels()->layer_norm_backward(t[x], t[weight], t[stats], t[dy], t[dx],
                                                 p.accumulate_dx, t[dweight], t[dbias],
                                                 p.accumulate);
  });
}

OpCase rms_norm_case(const NormCase& p, double offset) {
  OpCase op((offset == 0 ? "rms_norm " : "rms_norm of weight + 1 ") + text(p));
  const RmsNorm n(1e-5, offset);
  const auto x = op.in({p.rows, p.columns}, p.x);
  const auto weight = op.in({p.columns});
  const auto dy = op.in({p.rows, p.columns});
  const auto y = op.out({p.rows, p.columns}), stats = op.out({p.rows, 1}, Type::kWide);
  const auto dx = gradient(op, {p.rows, p.columns}, p.dx, p.accumulate_dx);
  const auto dweight = gradient(op, {p.columns}, Type::kWide, p.accumulate);
  return std::move(op).calls([=](Backend& backend, Tensors t) {
    backend.kernels()->rms_norm(t[x], t[weight], n, t[y], t[stats]);
    backend.train_kernels()->rms_norm_backward(t[x], t[weight], n, t[stats], t[dy], t[dx],
                                               p.accumulate_dx, t[dweight], p.accumulate);
  });
}

// Backward in place of dy, as training does it, and beside it.
OpCase head_norm_case(std::int64_t rows, const HeadNorm& n, bool accumulate) {
  OpCase op(join("head_norm ", rows, " heads ", n.heads, "/", n.kv_heads, "x", n.head_dim,
                 accumulate ? " accumulate" : ""));
  const Shape shape = {rows, (n.heads + 2 * n.kv_heads) * n.head_dim};
  const auto qkv = op.in(shape), queries = op.in({n.head_dim}), keys = op.in({n.head_dim});
  const auto dy = op.both(shape), dqkv = op.out(shape), y = op.out(shape);
  const auto stats = op.out({rows, n.heads + n.kv_heads}, Type::kWide);
  const auto dq = gradient(op, {n.head_dim}, Type::kWide, accumulate);
  const auto dk = gradient(op, {n.head_dim}, Type::kCompute, accumulate);
  return std::move(op).calls([=](Backend& backend, Tensors t) {
    backend.kernels()->head_norm(n, t[qkv], t[queries], t[keys], t[y], t[stats]);
    backend.train_kernels()->head_norm_backward(n, t[qkv], t[queries], t[keys], t[stats], t[dy],
                                                t[dqkv], t[dq], accumulate, t[dk], accumulate);
    backend.train_kernels()->head_norm_backward(n, t[qkv], t[queries], t[keys], t[stats], t[dy],
                                                t[dy], t[dq], true, t[dk], true);
  });
}

}  // namespace

std::vector<OpCase> norm_cases() {
  const std::vector<NormCase> list = {
      {6, 37, Type::kCompute, Type::kCompute, false, false},
      {6, 37, Type::kWide, Type::kWide, true, true},
      {3, 64, Type::kWide, Type::kWide, false, true},
      {3, 64, Type::kCompute, Type::kWide, true, false},
      {1, 5, Type::kWide, Type::kCompute, false, false},
      {70, 16, Type::kWide, Type::kWide, false, false},
      {0, 16, Type::kWide, Type::kWide, false, false},
  };
  std::vector<OpCase> cases;
  for (const NormCase& p : list) {
    cases.push_back(layer_norm_case(p));
    for (const double offset : {0.0, 1.0}) cases.push_back(rms_norm_case(p, offset));
  }
  for (const bool accumulate : {false, true}) {
    cases.push_back(head_norm_case(6, {.heads = 4, .kv_heads = 2, .head_dim = 7}, accumulate));
    cases.push_back(head_norm_case(70, {.heads = 3, .kv_heads = 1, .head_dim = 32}, accumulate));
  }
  cases.push_back(head_norm_case(0, {.heads = 2, .kv_heads = 2, .head_dim = 8}, false));
  return cases;
}

}  // namespace trireme::test
