#include "framework/base/error.h"
#include "tests/conformance/backend/op_case.h"

namespace trireme::test {

namespace {

constexpr std::int64_t kCount = 133;

OpCase squares_case(Type type) {
  OpCase op(join("sum_of_squares ", static_cast<int>(type)));
  const auto x = op.in({kCount}, type);
  const auto out = op.both({2}, Type::kF64);
  return std::move(op).calls(
      [=](Backend& backend, Tensors t) { backend.train_kernels()->sum_of_squares(t[x], t[out]); });
}

OpCase pieces_case(Type type, Type out_type) {
  OpCase op(join("sum_in_order ", static_cast<int>(type), static_cast<int>(out_type)));
  const auto a = op.in({kCount}, type), b = op.in({kCount}, type), c = op.in({kCount}, type);
  const auto sum = op.out({kCount}, out_type);
  return std::move(op).calls([=](Backend& backend, Tensors t) {
    const Tensor pieces[] = {t[a], t[b], t[c]};
    backend.kernels()->sum_in_order(pieces, t[sum]);
  });
}

OpCase max_case(Type type) {
  OpCase op(join("max_of ", static_cast<int>(type)));
  const auto a = op.in({kCount}, type), b = op.in({kCount}, type), c = op.in({kCount}, type);
  const auto largest = op.out({kCount}, type);
  return std::move(op).calls([=](Backend& backend, Tensors t) {
    const Tensor pieces[] = {t[a], t[b], t[c]};
    backend.kernels()->max_of(pieces, t[largest]);
  });
}

OpCase adam_case(double weight_decay, double l2, Type gradient_type) {
  OpCase op(join("adam decay ", weight_decay, " l2 ", l2, " ", static_cast<int>(gradient_type)));
  const AdamStep s = {.lr = 0.01,
                      .weight_decay = weight_decay,
                      .l2 = l2,
                      .bias1 = 0.1,
                      .bias2 = 0.001,
                      .gradient_factor = 0.5};
  const auto w = op.both({kCount}, Type::kWide), m = op.out({kCount}, Type::kWide),
             v = op.out({kCount}, Type::kWide);
  const auto g = op.in({kCount}, gradient_type);
  const auto weights = op.out({kCount});
  return std::move(op).calls([=](Backend& backend, Tensors t) {
    backend.kernels()->fill(t[m], 0.25);
    backend.kernels()->fill(t[v], 0.5);
    backend.train_kernels()->adam(s, t[w], t[m], t[v], t[g], t[weights]);
  });
}

OpCase sgd_case(double momentum, bool first) {
  OpCase op(join("sgd momentum ", momentum, first ? " first" : ""));
  const SgdStep s = {.lr = 0.1,
                     .momentum = momentum,
                     .weight_decay = 0.01,
                     .gradient_factor = 0.5,
                     .first = first};
  const auto w = op.both({kCount}, Type::kWide);
  const auto buffer = first ? op.out({kCount}, Type::kWide) : op.both({kCount}, Type::kWide);
  if (momentum == 0.0) op.exempt_from_nan(buffer);
  const auto g = op.in({kCount});
  const auto weights = op.out({kCount});
  return std::move(op).calls([=](Backend& backend, Tensors t) {
    backend.train_kernels()->sgd(s, t[w], momentum == 0.0 ? Tensor() : t[buffer], t[g], t[weights]);
  });
}

}  // namespace

std::vector<OpCase> optimizer_cases() {
  std::vector<OpCase> cases;
  for (Type type : {Type::kCompute, Type::kWide}) {
    cases.push_back(squares_case(type));
    cases.push_back(pieces_case(type, Type::kWide));
    cases.push_back(pieces_case(type, Type::kCompute));
    cases.push_back(adam_case(0.1, 0.0, type));
    cases.push_back(adam_case(0.0, 0.1, type));
  }
  cases.push_back(max_case(Type::kWide));
  cases.push_back(sgd_case(0.0, false));
  cases.push_back(sgd_case(0.9, false));
  cases.push_back(sgd_case(0.9, true));
  return cases;
}

}  // namespace trireme::test
