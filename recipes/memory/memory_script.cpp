#include "recipes/memory/memory_script.h"

#include <algorithm>

#include "framework/base/error.h"
#include "tensor_parallel/embedding.h"
#include "tensor_parallel/head.h"

namespace trireme {

Extent operator*(const Extent& a, const Extent& b) {
  return {a.text + " " + b.text, a.count * b.count};
}

void MemoryScript::handed(const std::string& tensor, const Extent& bytes) {
  check(taken_.emplace(tensor, bytes.count).second, "memory list: ", tensor, " is taken twice");
}

void MemoryScript::take(const std::string& tensor, const Extent& bytes) {
  handed(tensor, bytes);
  steps_.push_back({.take = true, .tensor = tensor, .formula = bytes.text, .bytes = bytes.count});
}

void MemoryScript::give(const std::string& tensor) {
  const auto it = taken_.find(tensor);
  if (it == taken_.end()) fail("memory list: ", tensor, " is given back but not taken");
  steps_.push_back({.take = false, .tensor = tensor, .bytes = it->second});
  taken_.erase(it);
}

void MemoryScript::rename(const std::string& from, const std::string& to) {
  give(from);
  take(to, {"as " + from, steps_.back().bytes});
}

std::vector<MemoryStep> MemoryScript::cut() { return std::exchange(steps_, {}); }

void MemoryScript::expect_only(const std::string& left) const {
  for (const auto& [tensor, bytes] : taken_)
    check(tensor == left, "memory list: ", tensor, " (", bytes, " bytes) is never given back");
  check(left.empty() || !taken_.empty(), "memory list: ", left, " is not taken at the end");
}

std::vector<MemoryStep> joined(std::vector<MemoryStep> first,
                               const std::vector<MemoryStep>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

namespace {

void check_cut(const char* what, std::int64_t n, int ranks) {
  check(n % ranks == 0, "memory of a layer: ", n, " ", what, " cannot be cut over ", ranks,
        " tensor ranks");
}

Extent cut(const std::string& text, std::int64_t n, int ranks) {
  return {ranks > 1 ? text + "/t" : text, n / ranks};
}

// Columns of this rank's [query heads | key heads | value heads].
Extent qkv_columns(const ModelOptions& m, int t) {
  const std::int64_t kv = std::max<std::int64_t>(1, m.kv_heads / t);
  const std::string text = t == 1 ? "(H + 2 G)" : m.kv_heads >= t ? "(H + 2 G)/t" : "(H/t + 2)";
  return Extent{text, m.heads / t + 2 * kv} * Extent{"D", m.head_dim};
}

void check_use(const ModelOptions& m, const LayerUse& use) {
  const int t = use.tensor;
  check(use.samples > 0 && t > 0, "memory of a layer: ", use.samples, " samples on ", t,
        " tensor ranks: both must be at least 1");
  check(is_floating(use.compute), "memory of a layer: the compute type must be f64, f32, bf16 or ",
        "f16, got ", name_of(use.compute));
  check_cut("feed-forward columns", m.ffn, t);
  if (m.family == Family::kMlp) {
    check(!use.sequence_parallel, "memory of a layer: the mlp family has no sequence to cut");
    return;
  }
  check_cut("attention heads", m.heads, t);
  check(m.kv_heads > 0 && (m.kv_heads % t == 0 || t % m.kv_heads == 0),
        "memory of a layer: ", m.kv_heads, " key/value heads cannot be split over ", t,
        " tensor ranks");
  if (use.sequence_parallel) check_cut("rows", use.samples * m.sequence, t);
}

}  // namespace

LayerSizes::LayerSizes(const ModelOptions& m, const LayerUse& use) {
  check_use(m, use);
  const int t = use.tensor;
  const std::int64_t rows = use.samples * m.sequence;
  const bool mlp = m.family == Family::kMlp;
  alone = t == 1;
  sharded = use.sequence_parallel && !alone;
  mixed = size_of(use.compute) < size_of(accumulation_type(use.compute));
  selective = use.selective;
  dropout = use.dropout;
  qk_norm = !mlp && m.qk_norm;
  R = {"R", rows};
  r = sharded ? Extent{"r", rows / t} : R;
  B = {"B", use.samples};
  C = {"C", m.hidden};
  K = use.first_block ? Extent{"T C", m.sequence * m.hidden} : C;
  F = cut("F", m.ffn, t);
  up = cut(m.gated ? "2 F" : "F", (m.gated ? 2 : 1) * m.ffn, t);
  if (!mlp) {
    H = cut("H", m.heads, t);
    heads = H * Extent{"D", m.head_dim};
    qkv = qkv_columns(m, t);
    normed = {t == 1            ? "(H + G)"
              : m.kv_heads >= t ? "(H + G)/t"
                                : "(H/t + 1)",
              m.heads / t + std::max<std::int64_t>(1, m.kv_heads / t)};
  }
  V = cut("V", padded_vocab(m.vocab, t), t);
  n = {"n", std::min(HeadOptions{}.chunk_rows, mlp ? use.samples : rows)};
  stats = m.norm == NormKind::kLayerNorm ? Extent{"2", 2} : Extent{"1", 1};
  w = {"w", size_of(accumulation_type(use.compute))};
  c = {"c", size_of(use.compute)};
}

LayerMemory layer_memory(const ModelOptions& model, EntryKind kind, const LayerUse& use) {
  const LayerSizes sizes(model, use);
  if (kind == EntryKind::kEmbedding) return embedding_memory(model, sizes, use);
  if (kind == EntryKind::kHead) return head_memory(model, sizes);
  return model.family == Family::kDecoder ? decoder_block_memory(sizes)
                                          : mlp_block_memory(sizes, use);
}

bool narrow_input_gradient(const ModelOptions& model, EntryKind kind, const LayerUse& use) {
  if (model.family == Family::kDecoder || kind == EntryKind::kEmbedding) return false;
  if (size_of(use.compute) == size_of(accumulation_type(use.compute))) return false;
  return kind == EntryKind::kHead || use.first_block || use.narrow_gradient;
}

}  // namespace trireme
