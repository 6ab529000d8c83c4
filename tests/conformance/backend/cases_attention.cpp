#include <cmath>

#include "framework/base/error.h"
#include "tests/conformance/backend/op_case.h"

namespace trireme::test {

namespace {

// Documents of these lengths, again and again, whatever the samples.
std::vector<std::int32_t> document_starts(std::int64_t batch, std::int64_t tokens,
                                          const std::vector<std::int64_t>& lengths) {
  std::vector<std::int32_t> starts;
  std::size_t document = 0;
  std::int64_t left = lengths[0];
  for (std::int64_t b = 0; b < batch; ++b) {
    std::int32_t start = 0;
    for (std::int64_t t = 0; t < tokens; ++t, --left) {
      if (left == 0) {
        left = lengths[++document % lengths.size()];
        start = static_cast<std::int32_t>(t);
      }
      starts.push_back(start);
    }
  }
  return starts;
}

// Forward, then backward with what forward left. Dropout is 0 or 0.2.
OpCase attention_case(std::int64_t batch, std::int64_t tokens, std::int64_t heads,
                      std::int64_t kv_heads, std::int64_t head_dim, double p,
                      std::int64_t window = 0, std::vector<std::int64_t> documents = {}) {
  OpCase op(join("attention ", batch, "x", tokens, " heads ", heads, "/", kv_heads, "x", head_dim,
                 p > 0 ? " dropout" : "", window > 0 ? join(" window ", window) : "",
                 documents.empty() ? "" : join(" documents of ", documents.front(), "...")));
  Attention plain = {.batch = batch,
                     .tokens = tokens,
                     .heads = heads,
                     .kv_heads = kv_heads,
                     .head_dim = head_dim,
                     .scale = 1.0 / std::sqrt(static_cast<double>(head_dim))};
  plain.window = window;
  if (p > 0) {
    plain.dropout = Dropout{
        .key = key_from_seed(8), .threshold = dropout_threshold(p), .scale = 1.0 / (1.0 - p)};
    plain.first_sample = 3;
    plain.first_head = 2;
    plain.total_heads = heads + 5;
  }
  const std::int64_t rows = batch * tokens;
  const auto qkv = op.in({rows, (heads + 2 * kv_heads) * head_dim});
  const auto dout = op.in({rows, heads * head_dim});
  const auto out = op.out({rows, heads * head_dim});
  const auto lse = op.out({batch * heads, tokens}, Type::kWide);
  const auto dqkv = op.out({rows, (heads + 2 * kv_heads) * head_dim});
  const auto starts = op.ids(documents.empty() ? std::vector<std::int32_t>{0}
                                               : document_starts(batch, tokens, documents));
  return std::move(op).calls([=](Backend& backend, Tensors t) {
    Attention a = plain;
    if (!documents.empty()) a.document_starts = t[starts];
    backend.kernels()->attention(a, t[qkv], t[out], t[lse]);
    backend.train_kernels()->attention_backward(a, t[qkv], t[out], t[lse], t[dout], t[dqkv]);
  });
}

}  // namespace

std::vector<OpCase> attention_cases() {
  std::vector<OpCase> cases;
  for (double p : {0.0, 0.2})
    for (std::int64_t kv_heads : {4, 2, 1})
      cases.push_back(attention_case(2, 9, 4, kv_heads, 8, p));
  cases.push_back(attention_case(1, 70, 2, 2, 16, 0.0));  // more than one tile of most kernels
  cases.push_back(attention_case(1, 131, 2, 1, 64, 0.2));
  cases.push_back(attention_case(2, 1, 3, 3, 4, 0.0));
  cases.push_back(attention_case(1, 33, 1, 1, 20, 0.0));
  cases.push_back(attention_case(0, 8, 2, 2, 8, 0.0));
  for (const std::int64_t window : {1, 2, 4, 9, 20})
    cases.push_back(attention_case(2, 9, 4, 2, 8, window == 4 ? 0.2 : 0.0, window));
  for (const std::int64_t window : {1, 64, 66, 128, 400})  // edges of tiles
    cases.push_back(attention_case(1, 200, 2, 1, 16, 0.0, window));
  // Documents that end within tiles, at their edges, and longer than several.
  cases.push_back(attention_case(2, 9, 4, 2, 8, 0.2, 0, {4, 1, 3, 2}));
  cases.push_back(attention_case(2, 9, 4, 1, 8, 0.0, 2, {4, 1, 3, 2}));
  cases.push_back(attention_case(2, 9, 2, 2, 8, 0.0, 0, {1}));
  cases.push_back(attention_case(1, 200, 2, 1, 16, 0.0, 0, {64, 64, 10, 1, 61}));
  cases.push_back(attention_case(2, 200, 2, 1, 16, 0.0, 0, {90, 3, 170}));
  cases.push_back(attention_case(1, 200, 2, 2, 16, 0.1, 66, {130, 70}));
  cases.push_back(attention_case(1, 330, 1, 1, 16, 0.0, 0, {65, 193, 2}));
  return cases;
}

}  // namespace trireme::test
