#include "framework/backend/cpu/matrix_tiles.h"

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace trireme {

#if defined(__AMX_BF16__) && defined(__AMX_TILE__)

namespace {

constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
constexpr int kTileData = 18;               // XFEATURE_XTILEDATA

struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

// 32 x 32 of c: tiles 0-3 hold it, 4 and 5 two bands of a, 6 and 7 two bands of b.
inline void block_product(std::int64_t words, WordMatrix a, WordMatrix b, float* c,
                          std::int64_t c_row, bool accumulate) {
  const std::int64_t a_bytes = a.row * 4, b_bytes = b.row * 4, c_bytes = c_row * 4;
  float* c_low = c + 16 * c_row;
  if (accumulate) {
    _tile_loadd(0, c, c_bytes);
    _tile_loadd(1, c + 16, c_bytes);
    _tile_loadd(2, c_low, c_bytes);
    _tile_loadd(3, c_low + 16, c_bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t k = 0; k < words; k += 16) {
    _tile_loadd(4, a.data + k, a_bytes);
    _tile_loadd(5, a.data + 16 * a.row + k, a_bytes);
    _tile_loadd(6, b.data + k * b.row, b_bytes);
    _tile_loadd(7, b.data + k * b.row + 16, b_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, c_bytes);
  _tile_stored(1, c + 16, c_bytes);
  _tile_stored(2, c_low, c_bytes);
  _tile_stored(3, c_low + 16, c_bytes);
}

// 16 x 32 of c, or fewer rows: tiles 0 and 1 hold it, 4 a, 6 and 7 two bands of b.
inline void half_product(std::int64_t words, WordMatrix a, const std::uint32_t* left,
                         const std::uint32_t* right, std::int64_t b_row, float* c,
                         std::int64_t c_row, bool accumulate) {
  const std::int64_t a_bytes = a.row * 4, b_bytes = b_row * 4, c_bytes = c_row * 4;
  if (accumulate) {
    _tile_loadd(0, c, c_bytes);
    _tile_loadd(1, c + 16, c_bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
  }
  for (std::int64_t k = 0; k < words; k += 16) {
    _tile_loadd(4, a.data + k, a_bytes);
    _tile_loadd(6, left + k * b_row, b_bytes);
    _tile_loadd(7, right + k * b_row, b_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
  }
  _tile_stored(0, c, c_bytes);
  _tile_stored(1, c + 16, c_bytes);
}

}  // namespace

bool request_matrix_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  const bool bf16 = d & (1u << 22), tiles = d & (1u << 24);
  return bf16 && tiles && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

MatrixTileSession::MatrixTileSession(int rows) {
  TileShapes shapes;
  std::fill_n(shapes.row_bytes, 8, std::uint16_t{64});
  std::fill_n(shapes.rows, 8, std::uint8_t{16});
  for (const int tile : {0, 1, 4}) shapes.rows[tile] = static_cast<std::uint8_t>(rows);
  asm volatile("" : : "r"(&shapes) : "memory");
  _tile_loadconfig(&shapes);
}

MatrixTileSession::~MatrixTileSession() { _tile_release(); }

void matrix_tile_product(std::int64_t rows, std::int64_t columns, std::int64_t words, WordMatrix a,
                         WordMatrix b, float* c, std::int64_t c_row, bool accumulate) {
  // g++ 12's tile loads do not say that they read memory: earlier stores must be done.
  asm volatile("" : : : "memory");
  for (std::int64_t r = 0; r < rows; r += 32)
    for (std::int64_t n = 0; n < columns; n += 32)
      block_product(words, {a.data + r * a.row, a.row}, {b.data + n, b.row}, c + r * c_row + n,
                    c_row, accumulate);
  asm volatile("" : : : "memory");
}

void matrix_tile_rows(std::int64_t columns, std::int64_t words, WordMatrix a, WordMatrix b,
                      float* c, std::int64_t c_row, bool accumulate) {
  asm volatile("" : : : "memory");
  for (std::int64_t n = 0; n < columns; n += 32)
    half_product(words, a, b.data + n, b.data + n + 16, b.row, c + n, c_row, accumulate);
  asm volatile("" : : : "memory");
}

void matrix_tile_pages(std::int64_t words, WordMatrix a, const std::uint32_t* left,
                       const std::uint32_t* right, float* c, std::int64_t c_row) {
  asm volatile("" : : : "memory");
  half_product(words, a, left, right, 16, c, c_row, false);
  asm volatile("" : : : "memory");
}

#else

bool request_matrix_tiles() { return false; }
MatrixTileSession::MatrixTileSession(int) {}
MatrixTileSession::~MatrixTileSession() = default;
void matrix_tile_product(std::int64_t, std::int64_t, std::int64_t, WordMatrix, WordMatrix, float*,
                         std::int64_t, bool) {}
void matrix_tile_rows(std::int64_t, std::int64_t, WordMatrix, WordMatrix, float*, std::int64_t,
                      bool) {}
void matrix_tile_pages(std::int64_t, WordMatrix, const std::uint32_t*, const std::uint32_t*, float*,
                       std::int64_t) {}

#endif

}  // namespace trireme
