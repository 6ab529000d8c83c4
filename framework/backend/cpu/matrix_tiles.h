// Products of bf16 matrices on the CPU's matrix tiles (Intel AMX).
//
// A process must ask the system once; a thread must hold a MatrixTileSession while it multiplies,
// and no other code that uses tiles (oneDNN) may run on it meanwhile. Operands are 32-bit words,
// pairs of bf16 along the reduction; sums are f32; denormals count as zero.
#pragma once

#include <cstdint>

namespace trireme {

// Asks the system for the tiles; false where build, CPU or system have none.
bool request_matrix_tiles();

class MatrixTileSession {
 public:
  // `rows`: of matrix_tile_rows, 1 to 16.
  explicit MatrixTileSession(int rows = 16);
  ~MatrixTileSession();
  MatrixTileSession(const MatrixTileSession&) = delete;
  MatrixTileSession& operator=(const MatrixTileSession&) = delete;
};

struct WordMatrix {
  const std::uint32_t* data;
  std::int64_t row;  // stride
};

// c (rows, columns) = or += a (rows, words) x b (words, columns). rows and columns are multiples of
// 32, words of 16.
void matrix_tile_product(std::int64_t rows, std::int64_t columns, std::int64_t words, WordMatrix a,
                         WordMatrix b, float* c, std::int64_t c_row, bool accumulate);
// The same for as many rows as the session says, with the same sums in each.
void matrix_tile_rows(std::int64_t columns, std::int64_t words, WordMatrix a, WordMatrix b,
                      float* c, std::int64_t c_row, bool accumulate);

// c (rows of the session, 32) = a by two matrices of 16 columns, (words, 16) each.
void matrix_tile_pages(std::int64_t words, WordMatrix a, const std::uint32_t* left,
                       const std::uint32_t* right, float* c, std::int64_t c_row);

}  // namespace trireme
