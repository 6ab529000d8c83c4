#include "recipes/serve/stream_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "framework/backend/host_values.h"
#include "framework/base/error.h"
#include "pipeline/schedule.h"

namespace trireme {

namespace {

constexpr int kRounds = 3;

struct AskedToEnd {};

class Passes {
 public:
  Passes(const RankParts& rank, std::int64_t most, const std::function<bool()>& ends)
      : rank_(rank),
        ends_(ends),
        cache_(rank.backend, rank.engine.cache_options(pages_for(most))),
        pages_(static_cast<std::size_t>(pages_for(most))) {
    std::iota(pages_.begin(), pages_.end(), 0);
  }
  WeightStream& stream() { return *rank_.engine.stage().stream(); }

  double compute(std::int64_t rows) {
    InferenceRows pass{.sequences = {{0, rows, 0, pages_}}, .logit_rows = {rows - 1}};
    for (std::int64_t r = 0; r < rows; ++r)
      pass.ids.push_back(static_cast<std::int32_t>(r * 7919 % rank_.engine.options().model.vocab));
    return timed([&] { rank_.engine.infer(cache_, std::span(&pass, 1)); });
  }
  double fetch() {
    const ActionList actions = forward_only(
        rank_.mesh.shape().pipeline, 1, rank_.engine.options().chunks, rank_.mesh.coord().pipeline);
    return timed([&] { rank_.engine.stage().fetch_pass(actions); });
  }

 private:
  // Throws AskedToEnd.
  template <typename Work>
  double timed(const Work& work) {
    if (ends_ && ends_()) throw AskedToEnd();
    rank_.mesh.world().barrier();
    const auto begin = std::chrono::steady_clock::now();
    work();
    rank_.mesh.world().barrier();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  const RankParts& rank_;
  const std::function<bool()>& ends_;
  KvCache cache_;
  std::vector<std::int32_t> pages_;
};

// Rank 0's number, on all ranks.
double shared(const RankParts& rank, double value) {
  if (rank.mesh.world().size() == 1) return value;
  Tensor t = rank.backend.allocate({1}, DType::kF64, MemoryKind::kCommunication);
  upload_doubles(rank.backend, std::span(&value, 1), t);
  rank.mesh.world().broadcast(t, 0).wait();
  return download_doubles(rank.backend, t)[0];
}

// Where the line through the two passes around it, or the last two, reaches `seconds`.
// More rows never take less: what does was disturbed, not the other.
double rows_for(std::vector<StreamPass> passes, double seconds) {
  for (std::size_t i = passes.size(); i-- > 1;)
    passes[i - 1].compute = std::min(passes[i - 1].compute, passes[i].compute);
  if (passes.front().compute >= seconds) return static_cast<double>(passes.front().rows);
  for (std::size_t i = 1; i < passes.size(); ++i) {
    const StreamPass &a = passes[i - 1], &b = passes[i];
    const double rise = b.compute - a.compute;
    if ((b.compute < seconds && i + 1 < passes.size()) || rise <= 0) continue;
    return static_cast<double>(a.rows) +
           (seconds - a.compute) / rise * static_cast<double>(b.rows - a.rows);
  }
  return INFINITY;
}

StreamFigures measured(Passes& run, const RankParts& rank, std::int64_t most) {
  StreamFigures f;
  run.compute(1);  // slots hold weights from here on
  run.stream().set_fetching(false);
  for (std::int64_t rows = 1; rows <= most; rows = rows == 1 ? 16 : rows * 2) {
    if (rows > 16 && rows < 128) continue;
    run.compute(rows);
    f.passes.push_back({.rows = rows, .compute = std::min(run.compute(rows), run.compute(rows))});
  }
  run.stream().set_fetching(true);
  run.fetch();  // from here on the next pass is coming while one ends
  const std::int64_t before = run.stream().totals().bytes;
  double once = 0;
  for (int i = 0; i < kRounds; ++i) once += run.fetch() / kRounds;
  f.bytes = (run.stream().totals().bytes - before) / kRounds;
  f.hides = shared(rank, std::ceil(rows_for(f.passes, once)));
  const bool tried = std::any_of(f.passes.begin(), f.passes.end(), [&](const StreamPass& pass) {
    return static_cast<double>(pass.rows) == f.hides;
  });
  if (!tried && f.hides <= static_cast<double>(most)) {
    const auto rows = static_cast<std::int64_t>(f.hides);
    run.stream().set_fetching(false);
    f.passes.push_back({.rows = rows, .compute = std::min(run.compute(rows), run.compute(rows))});
    run.stream().set_fetching(true);
  }
  run.fetch();
  for (int round = 0; round < kRounds; ++round) {  // in turn: a disk's rate wanders
    f.fetch += run.fetch() / kRounds;
    for (StreamPass& pass : f.passes) {
      const double stalled = run.stream().totals().stalled;
      pass.both += run.compute(pass.rows) / kRounds;
      pass.stalled += (run.stream().totals().stalled - stalled) / kRounds;
    }
  }
  return f;
}

}  // namespace

double overlap_of(const StreamTimes& t) {
  const double shorter = std::min(t.busy, t.passing - t.stalled);
  return shorter > 0 ? std::clamp((t.busy - t.stalled) / shorter, 0.0, 1.0) : 0.0;
}

double StreamFigures::overlap(const StreamPass& pass) const {
  return (fetch + pass.compute - pass.both) / std::min(fetch, pass.compute);
}

std::optional<StreamFigures> bench_stream(const RankParts& rank, std::int64_t most,
                                          const std::function<bool()>& ends) {
  Passes run(rank, most, ends);
  try {
    return measured(run, rank, most);
  } catch (const AskedToEnd&) {
    return std::nullopt;
  }
}

}  // namespace trireme
