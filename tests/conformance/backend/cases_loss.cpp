#include "framework/base/error.h"
#include "tests/conformance/backend/op_case.h"

namespace trireme::test {

namespace {

// All columns on one rank, `padding` of them not real. The labels include ignored ones.
OpCase cross_entropy_case(std::int64_t vocab, std::int64_t padding, double smoothing,
                          Type logits_type, bool in_place) {
  OpCase op(join("cross_entropy V ", vocab, " + ", padding, " smoothing ", smoothing,
                 logits_type == Type::kWide ? " wide" : "", in_place ? " in place" : ""));
  const CrossEntropy c = {
      .first_column = 0, .valid = vocab, .vocab = vocab, .smoothing = smoothing};
  const std::int64_t rows = 6, columns = vocab + padding;
  const auto last = static_cast<std::int32_t>(vocab - 1);
  const auto logits =
      in_place ? op.both({rows, columns}, logits_type) : op.in({rows, columns}, logits_type);
  const auto labels = op.ids({0, last, -1, last / 2, last / 3, -100});
  const auto max = op.out({rows}, Type::kWide), sums = op.out({rows, 3}, Type::kWide);
  const auto total = op.both({1}, Type::kF64);
  const auto dlogits = in_place ? logits : op.out({rows, columns}, Type::kCompute);
  return std::move(op).calls([=](Backend& backend, Tensors t) {
    backend.kernels()->row_max(c, t[logits], t[max]);
    backend.kernels()->cross_entropy_sums(c, t[logits], t[max], t[labels], t[sums]);
    backend.kernels()->cross_entropy_loss(c, t[sums], t[labels], t[total]);
    backend.train_kernels()->cross_entropy_backward(c, t[logits], t[max], t[sums], t[labels], 0.25,
                                                    t[dlogits]);
  });
}

}  // namespace

std::vector<OpCase> loss_cases() {
  std::vector<OpCase> cases;
  for (double smoothing : {0.0, 0.1})
    for (Type type : {Type::kCompute, Type::kWide}) {
      cases.push_back(cross_entropy_case(5, 1, smoothing, type, false));
      cases.push_back(cross_entropy_case(67, 0, smoothing, type, false));
      cases.push_back(cross_entropy_case(200, 56, smoothing, type, true));
    }
  return cases;
}

}  // namespace trireme::test
