// Runs a head without norm over tensor ranks, forward and backward, f64.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme::test {

struct HeadCase {
  std::int64_t vocab = 0, columns = 0;
  std::vector<double> table, h;      // (vocab, columns) and (rows, columns), row-major
  std::vector<std::int32_t> labels;  // (rows)
  double smoothing = 0;
  std::int64_t chunk_rows = 256;
};

struct HeadResult {
  double loss = 0;                              // mean over all rows
  std::vector<std::vector<double>> table_rows;  // gradients by tensor rank, padding included
  std::vector<double> dh;
};
HeadResult run_head(int ranks, const HeadCase& head);

}  // namespace trireme::test
