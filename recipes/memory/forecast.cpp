#include "recipes/memory/forecast.h"

#include <algorithm>
#include <deque>
#include <map>

#include "framework/base/error.h"
#include "recipes/memory/forecast_kept.h"
#include "recipes/memory/forecast_layers.h"
#include "recipes/memory/forecast_units.h"

namespace trireme {

namespace {

constexpr std::size_t kSendsInFlight = 2;  // of a direction, as the runner keeps them

bool split_backward(const ActionList& actions) {
  return std::any_of(actions.begin(), actions.end(), [](const Action& action) {
    return action.kind == Action::Kind::kBackwardWeight;
  });
}

// A step of one rank, action by action.
class Walk {
 public:
  Walk(const ForecastRank& rank, Tally& tally)
      : rank_(rank),
        tally_(tally),
        units_(rank, flatten(rank.actions, rank.plan.entries_per_chunk), tally),
        layers_(rank, tally),
        kept_(rank, tally),
        split_(split_backward(rank.actions)),
        late_(rank.options.stage.plan.recompute == RecomputeMode::kSelective),
        ids_(tally.label(Tier::kDevice, MemoryKind::kActivations, "ids", "4 B T")),
        labels_(tally.label(Tier::kDevice, MemoryKind::kActivations, "labels", "4 rows")),
        starts_(tally.label(Tier::kDevice, MemoryKind::kActivations, "document starts", "4 B T")) {
    int first = 0;
    for (const int count : rank.plan.entries_per_chunk) {
      first_.push_back(first);
      first += count;
    }
    first_.push_back(first);
  }

  void residents() {
    units_.take_homes();
    kept_.take_home();
  }

  void step() {
    batch(true);
    for (const Action& action : rank_.actions) act(action);
    while (!sent_forward_.empty()) retire(sent_forward_, false);
    while (!sent_backward_.empty()) retire(sent_backward_, true);
    units_.end_pass();
    units_.step();
    batch(false);
  }

 private:
  const EntryPlan& entry(int index) const {
    return rank_.plan.entries[static_cast<std::size_t>(index)];
  }
  bool is_first(int chunk) const { return chunk == 0 && rank_.first_stage(); }
  bool is_last(int chunk) const { return chunk + 1 == rank_.options.chunks && rank_.last_stage(); }

  // All micro-batches are loaded before the pass.
  void batch(bool load) {
    const ModelOptions& model = rank_.options.model;
    const auto move = [&](int label, std::int64_t bytes) {
      load ? tally_.take(label, bytes) : tally_.give(label, bytes);
    };
    for (const std::int64_t samples : rank_.samples) {
      if (rank_.first_stage()) move(ids_, 4 * samples * model.sequence);
      const bool each_token = model.family == Family::kDecoder;
      if (rank_.last_stage()) move(labels_, 4 * samples * (each_token ? model.sequence : 1));
      if (rank_.options.reset_attention_mask) move(starts_, 4 * samples * model.sequence);
    }
  }

  void act(const Action& action) {
    switch (action.kind) {
      case Action::Kind::kForward:
        return forward(action);
      case Action::Kind::kBackward:
      case Action::Kind::kBackwardInput:
        return backward(action);
      case Action::Kind::kBackwardWeight:
        return weight_half(action);
      case Action::Kind::kRecvForward:
        return layers_.take_stream(boundary(action, true));
      case Action::Kind::kRecvBackward:
        return layers_.take_gradient(boundary(action, false));
      case Action::Kind::kSendForward:
        return hand_on(sent_forward_, boundary(action, false), false);
      case Action::Kind::kSendBackward:
        return hand_on(sent_backward_, boundary(action, true), true);
    }
  }

  std::int64_t boundary(const Action& action, bool input) const {
    const auto chunk = static_cast<std::size_t>(action.chunk);
    const Cut& cut = input ? rank_.plan.inputs[chunk] : rank_.plan.outputs[chunk];
    const std::int64_t rows =
        rank_.samples[static_cast<std::size_t>(action.micro)] * cut.rows_per_sample;
    const int shards = rank_.options.stage.plan.sequence_parallel ? rank_.mesh.tensor : 1;
    return rows / shards * cut.columns * rank_.wide;
  }

  void hand_on(std::deque<std::int64_t>& sent, std::int64_t bytes, bool gradient) {
    if (sent.size() >= kSendsInFlight) retire(sent, gradient);
    sent.push_back(bytes);
  }

  void retire(std::deque<std::int64_t>& sent, bool gradient) {
    gradient ? layers_.give_gradient(sent.front()) : layers_.give_stream(sent.front());
    sent.pop_front();
  }

  // One past the last entry that is run again together with this one.
  int segment_end(int index, int end) const {
    int stop = index + 1;
    if (!entry(index).run_again) return stop;
    while (stop < end && entry(stop).segment == entry(index).segment) ++stop;
    return stop;
  }

  void forward(const Action& action) {
    const auto chunk = static_cast<std::size_t>(action.chunk);
    for (int i = first_[chunk]; i < first_[chunk + 1];) {
      const int stop = segment_end(i, first_[chunk + 1]);
      const bool again = entry(i).run_again;
      for (int j = i; j < stop; ++j) {
        units_.touch(Touch::Kind::kEnter, j);
        again ? layers_.inference(j, action.micro, j == i)
              : layers_.forward(j, action.micro, false);
        units_.touch(Touch::Kind::kLeave, j);
      }
      if (again) kept_.keep(layers_.input_bytes(i, action.micro), layers_);
      i = stop;
    }
  }

  void backward(const Action& action) {
    const auto chunk = static_cast<std::size_t>(action.chunk);
    if (!is_last(action.chunk) && !layers_.output_wanted(first_[chunk + 1] - 1))
      layers_.give_gradient(boundary(action, false));
    for (int end = first_[chunk + 1]; end > first_[chunk];) {
      int begin = end - 1;
      if (entry(begin).run_again)
        while (begin > first_[chunk] && entry(begin - 1).run_again &&
               entry(begin - 1).segment == entry(begin).segment)
          --begin;
      if (entry(begin).run_again) {
        run_again(begin, end, action.micro);
      } else {
        units_.touch(Touch::Kind::kEnter, begin);
        backward_of(begin, action.micro, false);
      }
      end = begin;
    }
    if (is_first(action.chunk)) return;
    if (!layers_.narrow_gradient(first_[chunk])) return;
    // Gradients cross a cut in the wide type.
    const std::int64_t wide = boundary(action, true);
    layers_.take_gradient(wide);
    layers_.give_gradient(wide / rank_.wide * rank_.compute);
  }

  void run_again(int begin, int end, int micro) {
    const std::int64_t input = layers_.input_bytes(begin, micro);
    kept_.fetch(input, layers_);
    for (int i = begin; i < end; ++i) {
      units_.touch(Touch::Kind::kEnter, i);
      layers_.forward(i, micro, i == begin);
    }
    layers_.give_stream(layers_.output_bytes(end - 1, micro));
    for (int i = end; i-- > begin;) backward_of(i, micro, i == begin);
    if (!split_ || !layers_.keeps_input_for_weights(begin, micro)) layers_.give_stream(input);
  }

  void backward_of(int index, int micro, bool holds_input) {
    units_.touch(Touch::Kind::kBegin, index);
    split_ ? layers_.backward_input(index, micro, holds_input)
           : layers_.backward(index, micro, holds_input);
    if (!split_ || !late_) units_.touch(Touch::Kind::kLeave, index);
    if (!split_) units_.touch(Touch::Kind::kEnd, index);
  }

  void weight_half(const Action& action) {
    const auto chunk = static_cast<std::size_t>(action.chunk);
    for (int i = first_[chunk + 1]; i-- > first_[chunk];) {
      layers_.backward_weight(i, action.micro);
      if (late_) units_.touch(Touch::Kind::kLeave, i);
      units_.touch(Touch::Kind::kEnd, i);
    }
  }

  const ForecastRank& rank_;
  Tally& tally_;
  PaperUnits units_;
  PaperLayers layers_;
  PaperKept kept_;
  bool split_, late_;
  int ids_, labels_, starts_;
  std::vector<int> first_;  // entry of each chunk, and their number
  std::deque<std::int64_t> sent_forward_, sent_backward_;
};

// Masters and moments, as pieces_to_save (zero/train_state.h) cuts them: no padding, of copies one.
std::int64_t snapshot_bytes(const ForecastRank& rank) {
  if (rank.coord.data / rank.shards > 0) return 0;
  std::int64_t elements = 0;
  for (const FlatLayout& layout : rank.layouts)
    for (const Segment& segment : layout.segments())
      if (segment.counts_in_norm)
        elements += intersect(segment.range, layout.shard(rank.shard_rank())).size();
  return elements * rank.wide * (1 + moments(rank.options.optimizer.optimizer));
}

std::string snapshot_formula(const ForecastRank& rank) {
  return join(rank.wide * (1 + moments(rank.options.optimizer.optimizer)),
              " Psi / N, without padding and copies");
}

std::vector<std::string> doubts_of(const ForecastOptions& how) {
  std::vector<std::string> doubts{"workspace of kernels is not forecast"};
  if (how.transport == Transport::kMpi)
    doubts.push_back("device communication: what MPI ranks stage for sums is not counted");
  return doubts;
}

bool is_exact(const ForecastRank& rank, const ForecastOptions& how, Tier tier, MemoryKind kind) {
  if (kind == MemoryKind::kWorkspace || kind == MemoryKind::kKvCache) return false;
  const bool communication = kind == MemoryKind::kCommunication;
  if (tier == Tier::kDevice && communication && how.transport == Transport::kMpi) return false;
  if (tier == Tier::kHost && communication && how.background_save && !rank.all_trained())
    return false;
  return true;
}

StateLayout state_layout(const ForecastRank& rank) {
  const OffloadTiers& tiers = rank.options.stage.offload;
  return {.elements = rank.elements(),
          .trainable = rank.trainable(),
          .ranks = rank.shards,
          .stage = rank.options.stage.zero_stage,
          .parameters = tiers.parameters,
          .gradients = tiers.gradients,
          .optimizer = tiers.optimizer};
}

template <typename Fn>
void each_cell(Forecast& forecast, const Fn& fn) {
  for (int t = 0; t < kTiers; ++t)
    for (int k = 0; k < kMemoryKinds; ++k)
      fn(static_cast<Tier>(t), static_cast<MemoryKind>(k),
         forecast.cells[static_cast<std::size_t>(t)][static_cast<std::size_t>(k)]);
}

}  // namespace

Forecast forecast(const EngineOptions& options, const MeshShape& mesh, const MeshCoord& coord,
                  const ForecastOptions& how) {
  const ForecastRank rank(options, mesh, coord);
  const bool terms = how.detail == Detail::kTerms;
  Tally tally(terms);
  Walk walk(rank, tally);
  walk.residents();
  Forecast result;
  each_cell(result, [&](Tier tier, MemoryKind kind, ForecastCell& cell) {
    cell.resident = tally.current(tier, kind);
    cell.exact = is_exact(rank, how, tier, kind);
    if (terms) cell.resident_terms = tally.terms(tier, kind);
    result.resident[static_cast<std::size_t>(tier)] += cell.resident;
  });
  const bool snapshot = how.background_save && has_snapshot(options.stage.offload);
  const int copy =
      tally.label(Tier::kHost, MemoryKind::kCommunication,
                  "snapshot of a checkpoint that is being written", snapshot_formula(rank));
  if (snapshot) tally.take(copy, snapshot_bytes(rank));
  walk.step();
  if (snapshot) tally.give(copy, snapshot_bytes(rank));
  each_cell(result, [&](Tier tier, MemoryKind kind, ForecastCell& cell) {
    check(tally.current(tier, kind) == cell.resident, "forecast: ", name_of(kind), " on the ",
          name_of(tier), " tier has ", tally.current(tier, kind), " bytes after the step and ",
          cell.resident, " before it");
    cell.peak = tally.peak(tier, kind);
    if (terms) cell.peak_terms = tally.peak_terms(tier, kind);
  });
  for (int t = 0; t < kTiers; ++t)
    result.peak[static_cast<std::size_t>(t)] = tally.peak(static_cast<Tier>(t));
  result.ram = tally.peak_of_ram();
  if (terms) result.device_peak = tally.peak_terms(Tier::kDevice);
  result.elements = rank.elements();
  result.padding = rank.plan.padding(rank.layouts);
  result.ranks = rank.shards;
  result.states =
      state_terms(state_layout(rank), {.compute = rank.compute,
                                       .gradients = rank.gradients,
                                       .wide = rank.wide,
                                       .moments = moments(options.optimizer.optimizer)});
  result.doubts = doubts_of(how);
  return result;
}

}  // namespace trireme
