// Passes with a key/value cache: forward only, over any layout of the mesh.
#include <algorithm>

#include "framework/backend/host_values.h"
#include "framework/base/error.h"
#include "recipes/models/engine.h"

namespace trireme {

KvCacheOptions Engine::cache_options(std::int64_t pages) const {
  const ModelOptions& m = options_.model;
  check(m.family == Family::kDecoder, "inference: only a causal model has a key/value cache");
  KvCacheOptions o{.kv_heads = std::max<std::int64_t>(1, m.kv_heads / mesh_.shape().tensor),
                   .head_dim = m.head_dim,
                   .pages = pages,
                   .compute = options_.stage.compute,
                   .host = options_.stage.offload.kv_cache == Tier::kHost ? &host() : nullptr};
  const int stages = mesh_.shape().pipeline;
  for (int chunk = 0; chunk < options_.chunks; ++chunk) {
    const auto part = static_cast<std::size_t>(chunk * stages + mesh_.coord().pipeline);
    for (int entry = bounds_[part]; entry < bounds_[part + 1]; ++entry)
      o.layers += layers_[static_cast<std::size_t>(entry)].recomputable ? 1 : 0;  // blocks
  }
  return o;
}

void Engine::begin_inference() {
  if (options_.forward_only) stage_->tile_weights();
}

namespace {

void download(Backend& backend, const Tensor& from, Logits& to) {
  to.resize(static_cast<std::size_t>(from.elements()));
  if (from.dtype() == DType::kF32) {
    return backend.share(from.rows(), [&](std::int64_t begin, std::int64_t end) {
      backend.download(from.sliced_rows(begin, end), to.data() + begin * from.columns());
    });
  }
  const std::vector<double> all = download_doubles(backend, from);
  to.assign(all.begin(), all.end());
}

// From (t * rows, V' / t), tensor rank after tensor rank, to (rows, V).
void take_rows(Backend& backend, const Tensor& gathered, std::int64_t rows, std::int64_t vocab,
               Logits& to) {
  if (gathered.elements() == rows * vocab && gathered.columns() == vocab)
    return download(backend, gathered, to);
  Logits values;
  download(backend, gathered, values);
  const std::int64_t columns = gathered.columns();
  to.resize(static_cast<std::size_t>(rows * vocab));
  for (std::int64_t part = 0; part * columns < vocab; ++part) {
    const std::int64_t count = std::min(columns, vocab - part * columns);
    for (std::int64_t r = 0; r < rows; ++r)
      std::copy_n(values.begin() + (part * rows + r) * columns, count,
                  to.begin() + r * vocab + part * columns);
  }
}

// From the records of tensor rank after tensor rank.
std::vector<TopLogits> merged_tops(Backend& backend, const Tensor& gathered, const WantedTop& top) {
  std::vector<TopLogits> rows(top.rows.size());
  if (rows.empty() || !gathered) return {};
  std::vector<std::int32_t> words(static_cast<std::size_t>(gathered.elements()));
  backend.download(gathered, words.data());
  const TopRows spec{.count = top.count};
  const auto each = static_cast<std::size_t>(spec.words());
  std::vector<std::span<const std::int32_t>> parts;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    parts.clear();
    for (std::size_t at = r * each; at < words.size(); at += rows.size() * each)
      parts.push_back(std::span(words).subspan(at, each));
    rows[r] = merged_top(spec, parts);
  }
  return rows;
}

}  // namespace

std::vector<Logits>& Engine::infer(KvCache& cache, std::span<const InferenceRows> rows) {
  check(!rows.empty(), "inference: a pass without rows");
  std::vector<InferencePass> passes;
  std::vector<MicroBatch> micros;
  passes.reserve(rows.size());
  for (const InferenceRows& r : rows) {
    passes.emplace_back(cache, r.sequences, r.logit_rows, r.top);
    MicroBatch& micro = micros.emplace_back();
    micro.samples = std::ssize(r.ids);
    micro.inference = &passes.back();
    if (!first_stage()) continue;
    micro.ids = backend_.allocate({micro.samples}, DType::kI32, MemoryKind::kActivations);
    upload_ids(backend_, r.ids, micro.ids);
  }
  RunnerOptions options = runner_options("inference", false);
  options.tokens = 1;
  options.sequence_parallel = false;
  Runner runner(backend_, mesh_.pipeline(), chunks_for(1));
  const ActionList actions = forward_only(mesh_.shape().pipeline, static_cast<int>(micros.size()),
                                          options_.chunks, mesh_.coord().pipeline);
  try {
    stage_->begin_forward_pass(actions);
    runner.run(actions, micros, options);
    stage_->end_pass();
  } catch (...) {  // memory that ended, say: a rank that is alone goes on
    stage_->abandon_pass();
    throw;
  }
  logits_.resize(rows.size());
  tops_.clear();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto wanted = std::ssize(rows[i].logit_rows);
    if (passes[i].logits)
      take_rows(backend_, passes[i].logits, wanted, options_.model.vocab, logits_[i]);
    else
      logits_[i].clear();
    tops_.push_back(merged_tops(backend_, passes[i].top, rows[i].top));
  }
  return logits_;
}

}  // namespace trireme
