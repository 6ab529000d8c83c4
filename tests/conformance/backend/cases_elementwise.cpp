#include "framework/base/error.h"
#include "tests/conformance/backend/op_case.h"

namespace trireme::test {

namespace {

const char* text(Activation act) {
  return act == Activation::kGeluTanh ? "gelu" : act == Activation::kSilu ? "silu" : "relu";
}

OpCase activation_case(Activation act, bool gated, std::int64_t rows, std::int64_t width) {
  OpCase op(join("activation ", text(act), gated ? " gated " : " ", rows, "x", width));
  const std::int64_t columns = (gated ? 2 : 1) * width;
  const auto x = op.in({rows, columns});
  const auto y = op.out({rows, width});
  return std::move(op).calls(
      [=](Backend& backend, Tensors t) { backend.kernels()->activation(act, gated, t[x], t[y]); });
}

OpCase activation_backward_case(Activation act, bool gated, std::int64_t rows, std::int64_t width,
                                bool in_place) {
  OpCase op(join("activation_backward ", text(act), gated ? " gated " : " ", rows, "x", width,
                 in_place ? " in place" : ""));
  const std::int64_t columns = (gated ? 2 : 1) * width;
  const auto x = in_place ? op.both({rows, columns}) : op.in({rows, columns});
  const auto dy = op.in({rows, width});
  const auto dx = in_place ? x : op.out({rows, columns});
  if (act == Activation::kRelu) op.exempt_from_nan(x);  // its slope is 0 or 1 whatever x is
  return std::move(op).calls([=](Backend& backend, Tensors t) {
    backend.train_kernels()->activation_backward(act, gated, t[x], t[dy], t[dx]);
  });
}

OpCase add_case(Type a_type, Type b_type, Type out_type, bool in_place) {
  OpCase op(join("add ", static_cast<int>(a_type), static_cast<int>(b_type),
                 static_cast<int>(out_type), in_place ? " in place" : ""));
  const auto a = in_place ? op.both({3, 37}, a_type) : op.in({3, 37}, a_type);
  const auto b = op.in({3, 37}, b_type);
  const auto out = in_place ? a : op.out({3, 37}, out_type);
  return std::move(op).calls(
      [=](Backend& backend, Tensors t) { backend.kernels()->add(t[a], t[b], t[out]); });
}

OpCase cast_case(Type from_type, Type to_type) {
  OpCase op(join("cast ", static_cast<int>(from_type), " to ", static_cast<int>(to_type)));
  const auto from = op.in({5, 19}, from_type);
  const auto to = op.out({5, 19}, to_type);
  return std::move(op).calls(
      [=](Backend& backend, Tensors t) { backend.kernels()->cast(t[from], t[to]); });
}

OpCase dropout_case(double p, bool in_place) {
  OpCase op(join("dropout ", p, in_place ? " in place" : ""));
  const auto x = in_place ? op.both({6, 21}) : op.in({6, 21});
  const auto y = in_place ? x : op.out({6, 21});
  const Dropout d = {.key = key_from_seed(5),
                     .threshold = dropout_threshold(p),
                     .scale = 1.0 / (1.0 - p),
                     .first_row = 3,
                     .first_column = 7,
                     .total_columns = 50};
  return std::move(op).calls(
      [=](Backend& backend, Tensors t) { backend.kernels()->dropout(d, t[x], t[y]); });
}

OpCase fill_and_scale_case() {
  OpCase op("fill, scale");
  const auto filled = op.out({41});
  const auto scaled = op.both({41});
  return std::move(op).calls([=](Backend& backend, Tensors t) {
    backend.kernels()->fill(t[filled], 1.5);
    backend.kernels()->scale(t[scaled], -0.625);
  });
}

}  // namespace

std::vector<OpCase> elementwise_cases() {
  std::vector<OpCase> cases;
  for (Activation act : {Activation::kGeluTanh, Activation::kSilu, Activation::kRelu})
    for (bool gated : {false, true}) {
      cases.push_back(activation_case(act, gated, 3, 37));
      cases.push_back(activation_case(act, gated, 1, 1));
      cases.push_back(activation_case(act, gated, 0, 8));
      cases.push_back(activation_backward_case(act, gated, 3, 37, false));
      cases.push_back(activation_backward_case(act, gated, 2, 64, true));
    }
  cases.push_back(add_case(Type::kCompute, Type::kCompute, Type::kCompute, false));
  cases.push_back(add_case(Type::kWide, Type::kCompute, Type::kWide, false));
  cases.push_back(add_case(Type::kWide, Type::kWide, Type::kCompute, false));
  cases.push_back(add_case(Type::kWide, Type::kCompute, Type::kWide, true));
  cases.push_back(cast_case(Type::kCompute, Type::kWide));
  cases.push_back(cast_case(Type::kWide, Type::kCompute));
  cases.push_back(cast_case(Type::kCompute, Type::kCompute));
  for (double p : {0.0, 0.1, 0.5})
    for (bool in_place : {false, true}) cases.push_back(dropout_case(p, in_place));
  cases.push_back(fill_and_scale_case());
  return cases;
}

}  // namespace trireme::test
