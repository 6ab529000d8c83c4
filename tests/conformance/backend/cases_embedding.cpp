#include "framework/base/error.h"
#include "tests/conformance/backend/op_case.h"

namespace trireme::test {

namespace {

// Tokens of a shard that holds rows 4 to 10: some lie outside it on both sides, one repeats.
const std::vector<std::int32_t> kIds = {4, 9, 0, 6, 6, 12, 3, 10, 6};
constexpr std::int64_t kFirst = 4, kRows = 7, kColumns = 19;

OpCase embedding_case(Type table_type, Type out_type) {
  OpCase op(join("embedding ", static_cast<int>(table_type), static_cast<int>(out_type)));
  const auto ids = op.ids(kIds);
  const auto table = op.in({kRows, kColumns}, table_type);
  const auto out = op.out({9, kColumns}, out_type);
  return std::move(op).calls([=](Backend& backend, Tensors t) {
    backend.kernels()->embedding(t[ids], t[table], kFirst, t[out]);
  });
}

OpCase embedding_backward_case(bool accumulate, Type type) {
  OpCase op(join("embedding_backward ", static_cast<int>(type), accumulate ? " accumulate" : ""));
  const auto ids = op.ids(kIds);
  const auto dy = op.in({9, kColumns});
  const auto table =
      accumulate ? op.both({kRows, kColumns}, type) : op.out({kRows, kColumns}, type);
  return std::move(op).calls([=](Backend& backend, Tensors t) {
    backend.train_kernels()->embedding_backward(t[ids], t[dy], kFirst, t[table], accumulate);
  });
}

// Of samples of 4 tokens: the second and the last are two documents each.
const std::vector<std::int32_t> kStarts{0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 3};

// Rows 5 to 12, positions from 2 on.
Positions positions(const Tensor& starts) {
  return {.tokens = 4, .first_row = 5, .first_position = 2, .document_starts = starts};
}

OpCase positions_case(bool starts) {
  OpCase op(join("add_positions", starts ? " of documents" : ""));
  const auto document_starts = op.ids(kStarts);
  const auto table = op.in({6, kColumns});
  const auto x = op.both({8, kColumns}, Type::kWide);
  return std::move(op).calls([=](Backend& backend, Tensors t) {
    backend.kernels()->add_positions(t[table], positions(starts ? t[document_starts] : Tensor()),
                                     t[x]);
  });
}

OpCase positions_backward_case(bool accumulate, bool starts) {
  OpCase op(join("add_positions_backward", accumulate ? " accumulate" : "",
                 starts ? " of documents" : ""));
  const auto document_starts = op.ids(kStarts);
  const auto dy = op.in({8, kColumns});
  const auto table =
      accumulate ? op.both({6, kColumns}, Type::kWide) : op.out({6, kColumns}, Type::kWide);
  return std::move(op).calls([=](Backend& backend, Tensors t) {
    backend.train_kernels()->add_positions_backward(
        t[dy], positions(starts ? t[document_starts] : Tensor()), t[table], accumulate);
  });
}

// `extra` columns after the heads stay as they are.
OpCase rotary_case(std::int64_t heads, std::int64_t head_dim, std::int64_t extra, bool inverse) {
  OpCase op(join("rotary ", heads, "x", head_dim, " + ", extra, inverse ? " inverse" : ""));
  const auto x = op.both({10, heads * head_dim + extra});
  const Rotary r = {.tokens = 5,
                    .heads = heads,
                    .head_dim = head_dim,
                    .first_position = 3,
                    .theta = 10000.0,
                    .inverse = inverse};
  return std::move(op).calls(
      [=](Backend& backend, Tensors t) { backend.kernels()->rotary(r, t[x]); });
}

}  // namespace

std::vector<OpCase> embedding_cases() {
  std::vector<OpCase> cases;
  cases.push_back(embedding_case(Type::kCompute, Type::kCompute));
  cases.push_back(embedding_case(Type::kCompute, Type::kWide));
  cases.push_back(embedding_case(Type::kWide, Type::kCompute));
  for (bool accumulate : {false, true}) {
    cases.push_back(embedding_backward_case(accumulate, Type::kCompute));
    cases.push_back(embedding_backward_case(accumulate, Type::kWide));
    for (const bool starts : {false, true})
      cases.push_back(positions_backward_case(accumulate, starts));
  }
  for (const bool starts : {false, true}) cases.push_back(positions_case(starts));
  for (bool inverse : {false, true}) {
    cases.push_back(rotary_case(3, 8, 0, inverse));
    cases.push_back(rotary_case(2, 6, 12, inverse));
    cases.push_back(rotary_case(1, 64, 64, inverse));
  }
  return cases;
}

}  // namespace trireme::test
