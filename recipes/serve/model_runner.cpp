#include "recipes/serve/model_runner.h"

#include <algorithm>

#include "framework/backend/host_values.h"
#include "framework/base/error.h"

namespace trireme {

namespace {

using Words = std::vector<std::int32_t>;

// A pass as words: micro-batches with their ids, sequences with page lists, rows wanted.
Words words_of(std::span<const InferenceRows> micros) {
  Words w{static_cast<std::int32_t>(micros.size())};
  const auto put = [&](std::int64_t value) { w.push_back(static_cast<std::int32_t>(value)); };
  for (const InferenceRows& m : micros) {
    put(std::ssize(m.ids));
    w.insert(w.end(), m.ids.begin(), m.ids.end());
    put(std::ssize(m.sequences));
    for (const PagedSequence& s : m.sequences) {
      for (const std::int64_t x : {s.first_row, s.rows, s.first_position}) put(x);
      put(std::ssize(s.pages));
      w.insert(w.end(), s.pages.begin(), s.pages.end());
    }
    put(std::ssize(m.logit_rows));
    for (const std::int64_t row : m.logit_rows) put(row);
  }
  return w;
}

// Page lists are views of the words.
std::vector<InferenceRows> rows_of(const Words& w) {
  std::size_t at = 0;
  const auto take = [&] { return w.at(at++); };
  std::vector<InferenceRows> micros(static_cast<std::size_t>(take()));
  for (InferenceRows& m : micros) {
    for (std::int32_t n = take(); n > 0; --n) m.ids.push_back(take());
    for (std::int32_t n = take(); n > 0; --n) {
      PagedSequence s{.first_row = take(), .rows = take(), .first_position = take()};
      const auto pages = static_cast<std::size_t>(take());
      s.pages = std::span(w).subspan(at, pages);
      at += pages;
      m.sequences.push_back(s);
    }
    for (std::int32_t n = take(); n > 0; --n) m.logit_rows.push_back(take());
  }
  return micros;
}

void broadcast_words(const RankParts& rank, Words& words) {
  Communicator& world = rank.mesh.world();
  if (world.size() == 1) return;
  const auto send = [&](Words& w) {
    Tensor t = rank.backend.allocate({std::ssize(w)}, DType::kI32, MemoryKind::kCommunication);
    upload_ids(rank.backend, w, t);
    world.broadcast(t, 0).wait();
    rank.backend.download(t, w.data());
  };
  Words size{static_cast<std::int32_t>(words.size())};
  world.set_place("serving, waiting for rows");
  send(size);
  words.resize(static_cast<std::size_t>(size[0]));
  if (!words.empty()) send(words);
}

// The last stage's logits on the leader.
void bring_logits(const RankParts& rank, std::span<const InferenceRows> micros,
                  std::vector<Logits>& all) {
  const MeshShape& shape = rank.mesh.shape();
  const MeshCoord& coord = rank.mesh.coord();
  if (shape.pipeline == 1 || coord.data != 0 || coord.tensor != 0) return;
  for (std::size_t i = 0; i < micros.size(); ++i) {
    const std::int64_t n = std::ssize(micros[i].logit_rows) * rank.engine.options().model.vocab;
    if (n == 0) continue;
    Tensor t = rank.backend.allocate({n}, DType::kF32, MemoryKind::kCommunication);
    if (coord.pipeline + 1 == shape.pipeline) rank.backend.upload(all[i].data(), t);
    rank.mesh.pipeline().broadcast(t, shape.pipeline - 1).wait();
    all[i].resize(static_cast<std::size_t>(n));
    rank.backend.download(t, all[i].data());
  }
}

class Leader final : public ModelRunner {
 public:
  Leader(const RankParts& rank, std::int64_t pages, std::int64_t context)
      : rank_(rank), context_(context), cache_(rank.backend, rank.engine.cache_options(pages)) {}
  ~Leader() override {
    try {
      Words end;
      broadcast_words(rank_, end);
    } catch (...) {  // a rank died: the others know by themselves
    }
  }
  std::int64_t vocab() const override { return rank_.engine.options().model.vocab; }
  std::int64_t pages() const override { return cache_.options().pages; }
  std::int64_t context() const override { return context_; }
  int groups() const override { return rank_.mesh.shape().pipeline; }
  std::span<const Logits> run(std::span<const InferenceRows> micros) override {
    if (rank_.mesh.world().size() > 1) {
      Words words = words_of(micros);
      broadcast_words(rank_, words);
    }
    std::vector<Logits>& all = rank_.engine.infer(cache_, micros);
    bring_logits(rank_, micros, all);
    return all;
  }
  void idle() override {
    Words nothing{0};
    broadcast_words(rank_, nothing);
  }

 private:
  RankParts rank_;
  std::int64_t context_;
  KvCache cache_;
};

}  // namespace

std::int64_t pages_within(const RankParts& rank, std::int64_t bytes) {
  const std::int64_t each = KvCache::page_bytes(rank.engine.cache_options(1));
  double pages = static_cast<double>(bytes / std::max<std::int64_t>(1, each));
  if (rank.mesh.world().size() == 1) return static_cast<std::int64_t>(pages);
  Tensor t = rank.backend.allocate({1}, DType::kF64, MemoryKind::kCommunication);
  pages = -pages;  // the least of them, as the largest of these
  upload_doubles(rank.backend, std::span(&pages, 1), t);
  rank.mesh.world().all_reduce(t, ReduceOp::kMax).wait();
  return static_cast<std::int64_t>(-download_doubles(rank.backend, t)[0]);
}

std::unique_ptr<ModelRunner> lead_passes(const RankParts& rank, std::int64_t pages,
                                         std::int64_t context) {
  check(rank.mesh.world().rank() == 0, "serving: rank ", rank.mesh.world().rank(), " cannot lead");
  return std::make_unique<Leader>(rank, pages, context);
}

void follow_passes(const RankParts& rank, std::int64_t pages) {
  KvCache cache(rank.backend, rank.engine.cache_options(pages));
  for (;;) {
    Words words;
    broadcast_words(rank, words);
    if (words.empty()) return;
    const std::vector<InferenceRows> micros = rows_of(words);
    if (micros.empty()) continue;  // idle
    std::vector<Logits>& all = rank.engine.infer(cache, micros);
    bring_logits(rank, micros, all);
  }
}

}  // namespace trireme
