// The head's loss and gradients do not depend on ranks or on how many rows have logits at a time.
#include "tests/support/tensors.h"
#include "tests/tensor_parallel/head_run.h"

namespace trireme::test {
namespace {

HeadCase random_case() {
  return {.vocab = 7,
          .columns = 3,
          .table = normals(7 * 3, 1),
          .h = normals(11 * 3, 2),
          .labels = {0, 1, 2, -1, 4, 5, 6, 6, -1, -1, 3},
          .smoothing = 0.1};
}

// Gradients of the real rows, of all ranks.
std::vector<double> table_gradient(const HeadResult& result, const HeadCase& head) {
  std::vector<double> all;
  for (const std::vector<double>& rows : result.table_rows)
    all.insert(all.end(), rows.begin(), rows.end());
  all.resize(static_cast<std::size_t>(head.vocab * head.columns));
  return all;
}

TEST(Head, ChunksOfRowsAndRanksDoNotMatter) {
  HeadCase head = random_case();
  const HeadResult whole = run_head(1, head);
  for (int ranks : {1, 2, 4})
    for (std::int64_t rows : {1, 2, 4, 11, 256}) {
      head.chunk_rows = rows;
      const HeadResult result = run_head(ranks, head);
      EXPECT_NEAR(result.loss, whole.loss, 1e-14);
      EXPECT_TRUE(close(result.dh, whole.dh, 1e-14));
      EXPECT_TRUE(close(table_gradient(result, head), table_gradient(whole, head), 1e-14));
    }
}

TEST(Head, RowsThatDoNotCountHaveNoGradient) {
  HeadCase head = random_case();
  const HeadResult some = run_head(2, head);
  for (std::size_t row : {3, 8, 9})
    for (std::size_t j = 0; j < 3; ++j) EXPECT_EQ(some.dh[row * 3 + j], 0.0);
  head.labels.assign(11, -1);
  const HeadResult none = run_head(2, head);
  EXPECT_EQ(none.loss, 0.0);
  EXPECT_EQ(none.dh, std::vector<double>(33, 0.0));
}

}  // namespace
}  // namespace trireme::test
