#include "recipes/models/tensor_moves.h"

namespace trireme {

using Kind = TensorMove::Kind;

TensorMoves& TensorMoves::operator+=(const TensorMoves& other) {
  forward.insert(forward.end(), other.forward.begin(), other.forward.end());
  backward.insert(backward.end(), other.backward.begin(), other.backward.end());
  return *this;
}

TensorMoves linear_pair_moves(std::int64_t rows_per_sample, std::int64_t inputs,
                              std::int64_t outputs) {
  const auto move = [&](Kind kind, std::int64_t columns) {
    return TensorMove{.kind = kind, .rows_per_sample = rows_per_sample, .columns = columns};
  };
  return {.forward = {move(Kind::kGatherRows, inputs), move(Kind::kSum, outputs)},
          .backward = {move(Kind::kGatherRows, outputs), move(Kind::kGatherRows, inputs),
                       move(Kind::kSum, inputs)}};
}

TensorMoves embedding_moves(std::int64_t rows_per_sample, std::int64_t columns) {
  const auto move = [&](Kind kind) {
    return TensorMove{
        .kind = kind, .rows_per_sample = rows_per_sample, .columns = columns, .wide = true};
  };
  return {.forward = {move(Kind::kSum)}, .backward = {move(Kind::kGatherRows)}};
}

TensorMoves head_moves(std::int64_t rows_per_sample, std::int64_t columns,
                       std::int64_t chunk_rows) {
  const auto statistics = [&](std::int64_t numbers) {  // of the softmax, a row each
    return TensorMove{.kind = Kind::kAllReduce,
                      .rows_per_sample = rows_per_sample,
                      .columns = numbers,
                      .wide = true,
                      .chunk_rows = chunk_rows};
  };
  const TensorMove gather{
      .kind = Kind::kGatherRows, .rows_per_sample = rows_per_sample, .columns = columns};
  const TensorMove sum{.kind = Kind::kSum,
                       .rows_per_sample = rows_per_sample,
                       .columns = columns,
                       .chunk_rows = chunk_rows};
  return {.backward = {gather, statistics(1), statistics(3), sum}};
}

}  // namespace trireme
