#include "framework/backend/infer_kernels.h"
#include "framework/base/error.h"

namespace trireme::infer_checks {

namespace {

void one_of_types(const char* what, const Tensor& x, DType a, DType b) {
  check(x.dtype() == a || x.dtype() == b, what, " is ", name_of(x.dtype()), ", expected ",
        name_of(a), a == b ? "" : " or ", a == b ? std::string_view() : name_of(b));
}

void sequence(const PagedSequence& s, std::int64_t rows, std::int64_t pages) {
  check(s.first_row >= 0 && s.rows > 0 && s.first_row + s.rows <= rows, "paged attention: rows ",
        s.first_row, " to ", s.first_row + s.rows, " of a sequence, but the batch has ", rows);
  check(s.first_position >= 0, "paged attention: position ", s.first_position);
  const std::int64_t needed = pages_for(s.first_position + s.rows);
  check(std::ssize(s.pages) >= needed, "paged attention: ", s.first_position + s.rows,
        " positions need ", needed, " pages, the sequence has ", s.pages.size());
  for (std::int64_t i = 0; i < needed; ++i) {
    const std::int32_t page = s.pages[static_cast<std::size_t>(i)];
    check(page >= 0 && page < pages, "paged attention: page ", page, " of ", pages);
  }
}

void operands(const PagedAttention& a, const Tensor& qkv, const KvPages& pages) {
  check(a.heads > 0 && a.kv_heads > 0 && a.head_dim > 0 && a.heads % a.kv_heads == 0,
        "paged attention: ", a.heads, " query and ", a.kv_heads, " key/value heads of ",
        a.head_dim);
  check(a.head_dim % 2 == 0, "paged attention: head_dim must be even, got ", a.head_dim);
  check(qkv.columns() == (a.heads + 2 * a.kv_heads) * a.head_dim, "paged attention: qkv has ",
        qkv.columns(), " columns, expected ", (a.heads + 2 * a.kv_heads) * a.head_dim);
  const Shape expected{pages.keys.shape()[0], a.kv_heads, kPageTokens * a.head_dim};
  check(pages.keys.shape() == expected && pages.values.shape() == expected,
        "paged attention: pages are ", pages.keys.shape(), " and ", pages.values.shape(),
        ", expected ", expected);
  for (const Tensor& half : {pages.keys, pages.values})
    one_of_types("paged attention: a page", half, kv_type(qkv.dtype()), kv_type(qkv.dtype()));
  for (const PagedSequence& s : a.sequences) sequence(s, qkv.rows(), pages.keys.shape()[0]);
}

void output(const Tensor& x, std::int64_t rows, const Tensor& bias, const Tensor& y) {
  one_of_types("linear: y", y, x.dtype(), accumulation_type(x.dtype()));
  check(!bias || bias.elements() == rows, "linear: a bias of ", bias.elements(), " for ", rows,
        " outputs");
}

void blob(const char* operation, const QuantizedMatrix& w) {
  check(w.shape.format != WeightFormat::kPlain && w.shape.rows >= 0 && w.shape.columns >= 0,
        operation, ": a quantized weight of format ", name_of(w.shape.format), ", (", w.shape.rows,
        ", ", w.shape.columns, ")");
  check(w.blob.defined() && w.blob.dtype() == DType::kU8 && w.blob.elements() == w.shape.bytes(),
        operation, ": a weight (", w.shape.rows, ", ", w.shape.columns, ") of ",
        name_of(w.shape.format), " has ", w.shape.bytes(), " bytes, not ",
        w.blob.defined() ? w.blob.bytes() : 0);
  check(reinterpret_cast<std::uintptr_t>(w.blob.data()) % kQuantAlign == 0, operation,
        ": a quantized weight must begin at a multiple of ", kQuantAlign, " bytes");
}

void rows_of_table(const Tensor& ids, std::int64_t columns, const Tensor& out) {
  check(ids.dtype() == DType::kI32 && is_floating(out.dtype()), "lookup: ids are ",
        name_of(ids.dtype()), ", rows ", name_of(out.dtype()),
        "; i32 and a floating type are needed");
  check(out.rows() == ids.elements() && out.columns() == columns, "lookup: ", ids.elements(),
        " ids and a table of ", columns, " columns do not give ", out.shape());
}

}  // namespace

void linear(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y) {
  check(is_floating(x.dtype()) && w.dtype() == x.dtype(), "linear: x is ", name_of(x.dtype()),
        ", the weight ", name_of(w.dtype()));
  check(w.columns() == x.columns() && y.rows() == x.rows() && y.columns() == w.rows(), "linear: x ",
        x.shape(), " and weight ", w.shape(), " do not give ", y.shape());
  output(x, w.rows(), bias, y);
}

void linear(const Tensor& x, const QuantizedMatrix& w, const Tensor& bias, const Tensor& y) {
  blob("linear", w);
  check(is_floating(x.dtype()), "linear: x is ", name_of(x.dtype()));
  check(w.shape.columns == x.columns() && y.rows() == x.rows() && y.columns() == w.shape.rows,
        "linear: x ", x.shape(), " and a quantized weight (", w.shape.rows, ", ", w.shape.columns,
        ") do not give ", y.shape());
  output(x, w.shape.rows, bias, y);
}

void lookup(const Tensor& ids, const QuantizedMatrix& table, const Tensor& out) {
  blob("lookup", table);
  rows_of_table(ids, table.shape.columns, out);
}

void tiled_lookup(const Tensor& ids, const Tensor& table, const Tensor& out) {
  rows_of_table(ids, table.columns(), out);
}

void quantize(const Tensor& values, const QuantizedCut& cut, const QuantizedMatrix& to) {
  blob("quantize", to);
  check(values.dtype() == DType::kF32 && values.rows() == to.shape.rows &&
            values.columns() == cut.whole_columns,
        "quantize: values are ", name_of(values.dtype()), " ", values.shape(), "; f32 (",
        to.shape.rows, ", ", cut.whole_columns, ") is needed");
  expect_whole_groups("quantize", to.shape, cut);
}

void append(const PagedAttention& a, const Tensor& qkv, const KvPages& pages) {
  operands(a, qkv, pages);
}

void attention(const PagedAttention& a, const Tensor& qkv, const KvPages& pages,
               const Tensor& out) {
  operands(a, qkv, pages);
  check(out.rows() == qkv.rows() && out.columns() == a.heads * a.head_dim &&
            out.dtype() == qkv.dtype(),
        "paged attention: out is ", out.shape(), " of ", name_of(out.dtype()), ", expected (",
        qkv.rows(), ", ", a.heads * a.head_dim, ") of ", name_of(qkv.dtype()));
}

void top(const TopRows& top, const Tensor& logits, const Tensor& words) {
  check(top.count >= 1 && top.count <= kMostTop, "top: ", top.count, " of a row: 1 to ", kMostTop);
  check(top.valid >= 0 && top.valid <= logits.columns() &&
            (logits.dtype() == DType::kF32 || logits.dtype() == DType::kF64),
        "top: ", top.valid, " columns of logits ", logits.shape(), ", ", name_of(logits.dtype()));
  check(words.dtype() == DType::kI32 && words.elements() == logits.rows() * top.words(),
        "top: ", words.elements(), " words for ", logits.rows(), " rows of ", top.words());
}

}  // namespace trireme::infer_checks
