#include "recipes/serve/model_runner.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <optional>
#include <utility>

#include "framework/backend/host_values.h"
#include "framework/base/error.h"
#include "recipes/serve/pass_words.h"

namespace trireme {

namespace {

// Every replica must run every pass: its weights are gathered with those of the others.
bool in_step(const RankParts& rank) {
  return rank.mesh.shape().data > 1 &&
         !policy_of(rank.engine.options().stage.zero_stage).whole_weights;
}

KvCache cache_of(const RankParts& rank, std::int64_t pages) {
  check(rank.engine.options().chunks == 1,
        "serving: pipeline.chunks = ", rank.engine.options().chunks,
        ": a stage has one part of the model; use 1");
  return {rank.backend, rank.engine.cache_options(pages + (in_step(rank) ? 1 : 0))};
}

// What ranks and the leader do alike with a pass.
class StageWork {
 public:
  StageWork(const RankParts& rank, std::int64_t pages)
      : rank_(rank), cache_(cache_of(rank, pages)), spare_{static_cast<std::int32_t>(pages)} {
    rank_.engine.begin_inference();
  }

  void run(const InferenceRows& rows) { all_ = &rank_.engine.infer(cache_, std::span(&rows, 1)); }
  void run_empty() { run({.ids = {0}, .sequences = {{0, 1, 0, spare_}}}); }
  // Of the last run.
  Logits& logits() { return (*all_)[0]; }
  std::vector<TopLogits>& top() { return rank_.engine.tops()[0]; }

 private:
  RankParts rank_;
  KvCache cache_;
  std::vector<std::int32_t> spare_;  // the page behind those of sequences
  std::vector<Logits>* all_ = nullptr;
};

struct AnswerSizes {
  std::int64_t logits = 0, rows = 0;  // values, rows of records
  TopRows top = {};
  std::int64_t words() const { return rows * top.words(); }
};

AnswerSizes sizes_of(const InferenceRows& rows, std::int64_t vocab) {
  return {.logits = std::ssize(rows.logit_rows) * vocab,
          .rows = std::ssize(rows.top.rows),
          .top = {.count = rows.top.count}};
}

// Where a replica's answers come from.
int last_rank(const Mesh& mesh, int replica) {
  return rank_of(mesh.shape(), {.data = replica, .pipeline = mesh.shape().pipeline - 1});
}

// The leader's end of an answer of another rank: receives at once, so that its sender never waits
// for what the leader computes.
class Arriving {
 public:
  Arriving(const RankParts& rank, int from, const AnswerSizes& sizes)
      : backend_(rank.backend), sizes_(sizes) {
    const auto post = [&](std::int64_t count, DType type) {
      Tensor t;
      if (count == 0) return t;
      t = backend_.allocate({count}, type, MemoryKind::kCommunication);
      pending_.push_back(rank.mesh.world().recv(t, from));
      return t;
    };
    words_ = post(sizes.words(), DType::kI32);
    logits_ = post(sizes.logits, DType::kF32);
  }
  void take(PassAnswer& answer) {
    for (Pending& pending : pending_) pending.wait();
    answer.logits.resize(static_cast<std::size_t>(sizes_.logits));
    if (logits_) backend_.download(logits_, answer.logits.data());
    std::vector<std::int32_t> words(static_cast<std::size_t>(sizes_.words()));
    if (words_) backend_.download(words_, words.data());
    answer.top.clear();
    const auto each = static_cast<std::size_t>(sizes_.top.words());
    for (std::size_t at = 0; at < words.size(); at += each) {
      const std::span<const std::int32_t> record = std::span(words).subspan(at, each);
      answer.top.push_back(merged_top(sizes_.top, std::span(&record, 1)));
    }
  }

 private:
  Backend& backend_;
  AnswerSizes sizes_;
  Tensor words_, logits_;
  std::vector<Pending> pending_;
};

// The other end.
void send_answer(const RankParts& rank, const AnswerSizes& sizes, StageWork& work,
                 std::deque<Pending>& sent) {
  const auto send = [&](const void* values, std::int64_t count, DType type) {
    if (count == 0) return;
    Tensor t = rank.backend.allocate({count}, type, MemoryKind::kCommunication);
    rank.backend.upload(values, t);
    sent.push_back(rank.mesh.world().send(t, 0));
  };
  std::vector<std::int32_t> words(static_cast<std::size_t>(sizes.words()));
  const auto each = static_cast<std::size_t>(sizes.top.words());
  for (std::size_t r = 0; r * each < words.size(); ++r)
    put_top(sizes.top, work.top()[r], std::span(words).subspan(r * each, each));
  send(words.data(), sizes.words(), DType::kI32);
  send(work.logits().data(), sizes.logits, DType::kF32);
}

class Leader final : public ModelRunner {
 public:
  Leader(const RankParts& rank, std::int64_t pages, std::int64_t context)
      : rank_(rank),
        route_(rank.mesh, rank.backend),
        pages_(pages),
        context_(context),
        work_(rank, pages),
        living_(std::uncaught_exceptions()) {}
  // After a failure the others know by themselves, and nobody takes what is sent.
  ~Leader() override {
    if (broken_ || std::uncaught_exceptions() > living_) return;
    try {
      while (!flights_.empty()) finish();
      tell_all(PassKind::kEnd);
    } catch (...) {
    }
  }
  std::int64_t vocab() const override { return rank_.engine.options().model.vocab; }
  std::int64_t pages() const override { return pages_; }
  std::int64_t context() const override { return context_; }
  int replicas() const override { return rank_.mesh.shape().data; }
  // Weights that are streamed come once for all rows of a pass: fewer and larger ones, then.
  int stages() const override {
    return rank_.engine.stage().stream() ? 1 : rank_.mesh.shape().pipeline;
  }
  StreamTimes streamed() const override {
    const WeightStream* const stream = rank_.engine.stage().stream();
    return stream ? stream->totals() : StreamTimes();
  }
  void share(std::int64_t n,
             const std::function<void(std::int64_t begin, std::int64_t end)>& f) override {
    rank_.backend.share(n, f);
  }
  bool survives() const override { return rank_.mesh.world().size() == 1; }

  void start(std::span<const InferenceRows> passes) override {
    guarded([&] { begin(passes); });
  }
  std::span<PassAnswer> finish() override {
    guarded([&] { end(); });
    return answers_;
  }
  void idle() override {
    guarded([&] { tell_all(PassKind::kIdle); });
  }

 private:
  struct Flight {
    std::vector<std::optional<Arriving>> arriving;  // by replica
    PassAnswer own;                                 // where this rank is the last stage, too
  };

  template <typename Work>
  void guarded(const Work& work) {
    try {
      work();
    } catch (...) {
      broken_ = !survives();
      throw;
    }
  }
  bool ends_here() const { return last_rank(rank_.mesh, 0) == 0; }
  PassMessage message_of(const InferenceRows& rows) const {
    if (!rows.ids.empty()) return {PassKind::kRows, words_of(rows)};
    return {in_step(rank_) ? PassKind::kEmpty : PassKind::kIdle};
  }
  void tell_all(PassKind kind) {
    rank_.mesh.world().set_place("serving, between passes");
    for (int r = 1; r < replicas(); ++r) route_.tell_replica(r, {kind});
    PassMessage own{kind};
    route_.hand_on(own);
  }
  // Replicas that have nothing to do hear of every pass: none waits for longer than one.
  void begin(std::span<const InferenceRows> passes) {
    check(std::ssize(passes) == replicas() && std::ssize(flights_) < stages(),
          "serving: ", passes.size(), " passes for ", replicas(), " replicas, ", flights_.size(),
          " of ", stages(), " in flight");
    rank_.mesh.world().set_place("serving, a pass");
    Flight flight;
    flight.arriving.resize(passes.size());
    for (int r = 0; r < replicas(); ++r) {
      const InferenceRows& rows = passes[static_cast<std::size_t>(r)];
      if (const int from = last_rank(rank_.mesh, r); from != 0 && !rows.ids.empty())
        flight.arriving[static_cast<std::size_t>(r)].emplace(rank_, from, sizes_of(rows, vocab()));
      if (r > 0) route_.tell_replica(r, message_of(rows));
    }
    run_own(passes[0], flight);
    flights_.push_back(std::move(flight));
  }
  void run_own(const InferenceRows& rows, Flight& flight) {
    if (rank_.mesh.world().size() > 1) {
      PassMessage own = message_of(rows);
      route_.hand_on(own);
    }
    if (rows.ids.empty() && in_step(rank_)) return work_.run_empty();
    if (rows.ids.empty()) return;
    work_.run(rows);
    if (!ends_here()) return;
    flight.own = {std::exchange(work_.logits(), std::move(used_)), std::move(work_.top())};
    used_ = {};
  }
  void end() {
    check(!flights_.empty(), "serving: no pass is in flight");
    rank_.mesh.world().set_place("serving, waiting for answers");
    Flight& flight = flights_.front();
    answers_.resize(flight.arriving.size());
    for (std::size_t r = 0; r < answers_.size(); ++r) {
      if (ends_here() && r == 0) used_ = std::move(answers_[0].logits);
      answers_[r] = {};
      if (flight.arriving[r]) flight.arriving[r]->take(answers_[r]);
    }
    if (ends_here()) answers_[0] = std::move(flight.own);
    flights_.pop_front();
  }

  RankParts rank_;
  PassRoute route_;
  std::int64_t pages_, context_;
  StageWork work_;
  std::deque<Flight> flights_;
  std::vector<PassAnswer> answers_;
  Logits used_;  // memory of an answer that was taken, for the next pass
  int living_;
  bool broken_ = false;
};

}  // namespace

std::int64_t pages_within(const RankParts& rank, std::int64_t bytes) {
  const std::int64_t each = KvCache::page_bytes(rank.engine.cache_options(1));
  double pages = static_cast<double>(bytes / std::max<std::int64_t>(1, each));
  if (in_step(rank)) pages = std::max(0.0, pages - 1);
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
  PassRoute route(rank.mesh, rank.backend);
  StageWork work(rank, pages);
  const MeshCoord& coord = rank.mesh.coord();
  const bool answers = last_rank(rank.mesh, coord.data) == rank.mesh.world().rank();
  std::deque<Pending> sent;
  for (;;) {
    rank.mesh.world().set_place("serving, waiting for rows");
    const PassMessage message = route.next();
    if (message.kind == PassKind::kEnd) return;
    if (message.kind == PassKind::kIdle) continue;
    rank.mesh.world().set_place("serving, a pass");
    if (message.kind == PassKind::kEmpty) {
      work.run_empty();
      continue;
    }
    const InferenceRows rows = rows_of(message.words);
    work.run(rows);
    if (!answers) continue;
    sent.clear();  // the leader has taken the one before
    send_answer(rank, sizes_of(rows, rank.engine.options().model.vocab), work, sent);
  }
}

}  // namespace trireme
