// Legend: see kernels.h.
#include "framework/backend/kernel_checks.h"

#include <algorithm>

#include "framework/backend/kernel_checks_parts.h"

namespace trireme::kernel_checks {

namespace {

// The largest row of the position table that `rows` rows starting at `first_row` touch, or -1 if
// there are none.
std::int64_t last_position(std::int64_t tokens, std::int64_t first_row, std::int64_t first_position,
                           std::int64_t rows) {
  if (rows == 0) return -1;
  return first_position + std::min(first_row % tokens + rows, tokens) - 1;
}

void positions(std::string_view op, const Tensor& table, const Positions& p, const Tensor& x,
               std::string_view x_name) {
  positive(op, "tokens", p.tokens);
  not_negative(op, "first_row", p.first_row);
  not_negative(op, "first_position", p.first_position);
  check(table.columns() == x.columns(), op, ": ", Described{"the table", table}, " but ",
        Described{x_name, x}, "; their columns must agree");
  const std::int64_t last = last_position(p.tokens, p.first_row, p.first_position, x.rows());
  check(last < table.rows(), op, ": position ", last, " is not in the table of ", table.rows(),
        " positions");
  if (!p.document_starts) return;
  type(op, "document_starts", p.document_starts, DType::kI32);
  check(p.document_starts.elements() >= p.first_row + x.rows(), op, ": ",
        Described{"document_starts", p.document_starts}, " but there are rows up to ",
        p.first_row + x.rows());
}

}  // namespace

MatmulExtents matmul(const Matmul& p) {
  floating("matmul", "a", p.a);
  type("matmul", "b", p.b, p.a.dtype());
  defined("matmul", "c", p.c);
  check(p.c.dtype() == p.a.dtype() || p.c.dtype() == accumulation_type(p.a.dtype()),
        "matmul: ", Described{"c", p.c}, "; ", name_of(p.a.dtype()), " or ",
        name_of(accumulation_type(p.a.dtype())), " is needed");
  const MatmulExtents e = {.m = p.transpose_a ? p.a.columns() : p.a.rows(),
                           .n = p.transpose_b ? p.b.rows() : p.b.columns(),
                           .k = p.transpose_a ? p.a.rows() : p.a.columns()};
  const std::int64_t b_k = p.transpose_b ? p.b.columns() : p.b.rows();
  check(e.k == b_k, "matmul: ", Described{"a", p.a}, p.transpose_a ? " (transposed)" : "", " and ",
        Described{"b", p.b}, p.transpose_b ? " (transposed)" : "", ": the inner extents ", e.k,
        " and ", b_k, " must agree");
  matrix("matmul", "c", p.c, e.m, e.n);
  if (p.bias) {
    check(!p.accumulate, "matmul: bias and accumulate exclude each other");
    floating("matmul", "bias", p.bias);
    count("matmul", "bias", p.bias, e.n);
  }
  return e;
}

void add(const Tensor& a, const Tensor& b, const Tensor& out) {
  floating("add", "a", a);
  floating("add", "b", b);
  floating("add", "out", out);
  matrix("add", "b", b, a.rows(), a.columns());
  matrix("add", "out", out, a.rows(), a.columns());
}

void add_bias(const Tensor& bias, const Tensor& out) {
  floating("add_bias", "bias", bias);
  floating("add_bias", "out", out);
  count("add_bias", "bias", bias, out.columns());
}

void cast(const Tensor& from, const Tensor& to) {
  defined("cast", "from", from);
  defined("cast", "to", to);
  check(from.dtype() == to.dtype() || (is_floating(from.dtype()) && is_floating(to.dtype())),
        "cast: ", Described{"from", from}, " and ", Described{"to", to},
        "; only floating types are converted");
  count("cast", "to", to, from.elements());
}

void fill(const Tensor& x) { defined("fill", "x", x); }

void scale(const Tensor& x) { floating("scale", "x", x); }

void dropout(const Dropout& d, const Tensor& x, const Tensor& y) {
  floating("dropout", "x", x);
  type("dropout", "y", y, x.dtype());
  matrix("dropout", "y", y, x.rows(), x.columns());
  not_negative("dropout", "first_row", d.first_row);
  check(d.first_column >= 0 && d.first_column + x.columns() <= d.total_columns, "dropout: columns ",
        d.first_column, " to ", d.first_column + x.columns(),
        " are not within total_columns = ", d.total_columns);
}

void embedding(const Tensor& ids, const Tensor& table, const Tensor& out) {
  type("embedding", "ids", ids, DType::kI32);
  floating("embedding", "the table", table);
  floating("embedding", "out", out);
  matrix("embedding", "out", out, ids.elements(), table.columns());
}

void embedding_backward(const Tensor& ids, const Tensor& dy, const Tensor& dtable) {
  type("embedding_backward", "ids", ids, DType::kI32);
  floating("embedding_backward", "dy", dy);
  family("embedding_backward", "dtable", dtable, "dy", dy);
  matrix("embedding_backward", "dy", dy, ids.elements(), dtable.columns());
}

void add_positions(const Tensor& table, const Positions& p, const Tensor& x) {
  floating("add_positions", "the table", table);
  floating("add_positions", "x", x);
  positions("add_positions", table, p, x, "x");
}

void add_positions_backward(const Tensor& dy, const Positions& p, const Tensor& dtable) {
  floating("add_positions_backward", "dy", dy);
  family("add_positions_backward", "dtable", dtable, "dy", dy);
  positions("add_positions_backward", dtable, p, dy, "dy");
}

void activation(bool gated, const Tensor& x, const Tensor& y) {
  floating("activation", "x", x);
  type("activation", "y", y, x.dtype());
  matrix("activation", "x", x, y.rows(), (gated ? 2 : 1) * y.columns());
}

void activation_backward(bool gated, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  floating("activation_backward", "x", x);
  type("activation_backward", "dy", dy, x.dtype());
  type("activation_backward", "dx", dx, x.dtype());
  matrix("activation_backward", "x", x, dy.rows(), (gated ? 2 : 1) * dy.columns());
  matrix("activation_backward", "dx", dx, x.rows(), x.columns());
}

void column_sum(const Tensor& dy, const Tensor& out) {
  floating("column_sum", "dy", dy);
  family("column_sum", "out", out, "dy", dy);
  count("column_sum", "out", out, dy.columns());
}

void sum_of_squares(const Tensor& x, const Tensor& out) {
  floating("sum_of_squares", "x", x);
  type("sum_of_squares", "out", out, DType::kF64);
  count("sum_of_squares", "out", out, 2);
}

void fingerprint(const Tensor& x, const Tensor& out) {
  defined("fingerprint", "x", x);
  type("fingerprint", "out", out, DType::kF64);
  count("fingerprint", "out", out, 2);
}

void sum_in_order(std::span<const Tensor> pieces, const Tensor& out) {
  floating("sum_in_order", "out", out);
  check(!pieces.empty(), "sum_in_order: there are no pieces");
  for (const Tensor& piece : pieces) {
    family("sum_in_order", "a piece", piece, "out", out);
    count("sum_in_order", "a piece", piece, out.elements());
  }
}

void max_of(std::span<const Tensor> pieces, const Tensor& out) {
  floating("max_of", "out", out);
  check(!pieces.empty(), "max_of: there are no pieces");
  for (const Tensor& piece : pieces) {
    type("max_of", "a piece", piece, out.dtype());
    count("max_of", "a piece", piece, out.elements());
  }
}

namespace {

// Master weights and what lies beside them.
void master(std::string_view op, const Tensor& w, const Tensor& g, const Tensor& weights) {
  defined(op, "w", w);
  check(w.dtype() == DType::kF64 || w.dtype() == DType::kF32, op, ": ", Described{"w", w},
        "; f64 or f32 is needed");
  floating(op, "g", g);
  count(op, "g", g, w.elements());
  if (!weights) return;
  floating(op, "weights", weights);
  count(op, "weights", weights, w.elements());
}

}  // namespace

void adam(const Tensor& w, const Tensor& m, const Tensor& v, const Tensor& g,
          const Tensor& weights) {
  master("adam", w, g, weights);
  type("adam", "m", m, w.dtype());
  type("adam", "v", v, w.dtype());
  count("adam", "m", m, w.elements());
  count("adam", "v", v, w.elements());
}

void sgd(const SgdStep& s, const Tensor& w, const Tensor& momentum, const Tensor& g,
         const Tensor& weights) {
  master("sgd", w, g, weights);
  if (s.momentum == 0.0 && !momentum) return;
  type("sgd", "momentum", momentum, w.dtype());
  count("sgd", "momentum", momentum, w.elements());
}

}  // namespace trireme::kernel_checks
