// What inference asks of a device besides Kernels: products of few rows at the memory's read rate,
// and attention over a key/value cache that lies in pages.
//
// A *page* holds kPageTokens positions of one sequence, of all key/value heads of one layer. Which
// pages a sequence has, and in which order, is its block table. How a page's elements are arranged
// is the backend's own affair: nobody else reads them, and copying pages whole is all that may be
// done with them (arXiv 2309.06180).
//
// Rows of a batch belong to several sequences, each with its own length: one row for a sequence
// that decodes, many for a prompt or a chunk of one. What attention makes of a row depends, to the
// last bit, neither on other sequences, nor on the number of threads, nor on how its sequence is
// cut into passes. The same holds for linear() where its products are a backend's own; a library's
// products of many rows may round the last digits otherwise (cpu: f32 from 64 rows on, never bf16
// on a CPU that multiplies it).
//
// Legend: R rows, K inputs, N outputs, H query heads, G key/value heads, D head size, P pages.
#pragma once

#include <cstdint>
#include <span>

#include "framework/backend/quantized.h"
#include "framework/backend/rope.h"
#include "framework/backend/top_rows.h"
#include "framework/base/tensor.h"

namespace trireme {

inline constexpr std::int64_t kPageTokens = 16;

// Pages that hold `tokens` positions.
constexpr std::int64_t pages_for(std::int64_t tokens) {
  return (tokens + kPageTokens - 1) / kPageTokens;
}
// Type of cached keys and values: the compute type; f32 for f16, which no CPU multiplies.
constexpr DType kv_type(DType compute) { return compute == DType::kF16 ? DType::kF32 : compute; }

// The rows of one sequence in a batch. Its earlier positions are in its pages already.
struct PagedSequence {
  std::int64_t first_row = 0, rows = 0;
  std::int64_t first_position = 0;           // of the first row
  std::span<const std::int32_t> pages = {};  // of positions 0, 16, 32, ...; enough for all rows
};

// One layer's pages: (P, G, kPageTokens * D) each, of kv_type(compute).
struct KvPages {
  Tensor keys, values;
};

struct PagedAttention {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  double scale = 1.0;
  std::int64_t window = 0;  // a query sees so many positions, its own included; 0 = all
  bool rotary = false;      // else positions are in the rows already
  double theta = 10000.0;
  RopeScaling scaling = {};
  std::span<const PagedSequence> sequences = {};
};

class InferKernels {
 public:
  virtual ~InferKernels() = default;

  // y (R, N) = x (R, K) w^T (N, K) [+ bias (N)]. x, w: one compute type; y: that or the wide one.
  virtual void linear(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y) = 0;

  // Weights that linear() and lookups alone read may lie in the order in which a backend multiplies
  // them (*tiled*), in the same memory. Is there one for w (N, K)? tile() puts it into that order,
  // in place and for good: only tiled_linear() and tiled_lookup() read it then, with the bits that
  // linear() and Kernels::embedding() gave before. Error where there is none.
  virtual bool tiles(const Tensor& w) const;
  virtual void tile(const Tensor& w);
  virtual void tiled_linear(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y);
  // As lookup() below.
  virtual void tiled_lookup(const Tensor& ids, const Tensor& table, std::int64_t first_row,
                            const Tensor& out);

  // linear() with a weight of 8 or 4 bits, which stands for the values that its blob gives. A
  // backend may take rows of 16-bit x in 8 bits, too: symmetric, a scale for each group of
  // kQuantGroup inputs, so that an element is off by at most the group's largest / 254.
  virtual void linear(const Tensor& x, const QuantizedMatrix& w, const Tensor& bias,
                      const Tensor& y) = 0;
  // out (R, K) = row ids[r] - first_row of a table (N, K), or zeros when that is outside [0, N).
  // ids (R) i32. out: any floating type.
  virtual void lookup(const Tensor& ids, const QuantizedMatrix& table, std::int64_t first_row,
                      const Tensor& out) = 0;
  // Fills `to`, all of it, from logical rows (N, cut.whole_columns) f32, all of them quantizable().
  virtual void quantize(const Tensor& values, const QuantizedCut& cut,
                        const QuantizedMatrix& to) = 0;

  // Rotates query and key heads of qkv (R, (H + 2G) * D) in place, if a.rotary, and writes keys and
  // values of all rows into their pages. Layout of qkv as in Attention (kernels.h). Pages need no
  // first value: what memory held before the positions of a sequence were written, one after the
  // other, has no effect on attention().
  virtual void append(const PagedAttention& a, const Tensor& qkv, const KvPages& pages) = 0;

  // out (R, H * D): causal attention of the queries in qkv over the pages, which hold the rows' own
  // keys and values, too.
  virtual void attention(const PagedAttention& a, const Tensor& qkv, const KvPages& pages,
                         const Tensor& out) = 0;

  // words (R, top.words()) i32 = the record of each row of logits (R, N), f32 or f64 (top_rows.h).
  virtual void top(const TopRows& top, const Tensor& logits, const Tensor& words);
};

// Throw Error with the numbers when operands do not fit each other; every backend calls them.
namespace infer_checks {
void linear(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y);
void linear(const Tensor& x, const QuantizedMatrix& w, const Tensor& bias, const Tensor& y);
void lookup(const Tensor& ids, const QuantizedMatrix& table, const Tensor& out);
void tiled_lookup(const Tensor& ids, const Tensor& table, const Tensor& out);
void quantize(const Tensor& values, const QuantizedCut& cut, const QuantizedMatrix& to);
void append(const PagedAttention& a, const Tensor& qkv, const KvPages& pages);
void attention(const PagedAttention& a, const Tensor& qkv, const KvPages& pages, const Tensor& out);
void top(const TopRows& top, const Tensor& logits, const Tensor& words);
}  // namespace infer_checks

}  // namespace trireme
