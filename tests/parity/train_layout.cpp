#include "tests/parity/train_layout.h"

#include <cmath>

#include "framework/backend/host_values.h"
#include "framework/base/error.h"
#include "tests/support/faulty_files.h"

namespace trireme::parity {

ModelOptions tiny_gpt2() {
  return {.layers = 4,
          .hidden = 16,
          .heads = 4,
          .kv_heads = 4,
          .head_dim = 4,
          .ffn = 64,
          .vocab = 13,
          .sequence = 8};
}

ModelOptions tiny_llama(std::int64_t kv_heads) {
  ModelOptions o = tiny_gpt2();
  o.kv_heads = kv_heads;
  o.ffn = 48;
  o.norm = NormKind::kRmsNorm;
  o.activation = Activation::kSilu;
  o.gated = true;
  o.bias = false;
  o.rotary = true;
  return o;
}

ModelOptions tiny_qwen(std::int64_t kv_heads) {
  ModelOptions o = tiny_llama(kv_heads);
  o.qkv_bias = true;
  o.qk_norm = true;
  o.norm_eps = 1e-6;
  o.window = 3;
  o.rope_scaling = {
      .kind = RopeScaling::Kind::kLlama3, .factor = 8, .low = 1, .high = 4, .original = 64};
  return o;
}

ModelOptions tiny_gemma() {
  ModelOptions o = tiny_llama(1);
  o.head_dim = 6;
  o.norm = NormKind::kRmsNormPlusOne;
  o.activation = Activation::kGeluTanh;
  o.scale_embeddings = true;
  o.rope_scaling = {.kind = RopeScaling::Kind::kLinear, .factor = 4};
  return o;
}

ModelOptions tiny_mlp() {
  ModelOptions o = tiny_gpt2();
  o.family = Family::kMlp;
  o.tie_embeddings = false;
  return o;
}

std::string text_of(const Layout& l) {
  return join("data ", l.mesh.data, " pipeline ", l.mesh.pipeline, " tensor ", l.mesh.tensor, " ",
              name_of(l.schedule), " chunks ", l.chunks, " micro ", l.micro,
              l.sequence_parallel ? " sequence-parallel" : "", " recompute ",
              static_cast<int>(l.recompute), "/", l.recompute_every, " zero ", l.zero_stage,
              " shards ", l.shard_ranks, " reshard ", static_cast<int>(l.reshard),
              l.overlap ? "" : " no overlap", l.partition_activations ? " partitioned" : "",
              " offload ", name_of(l.offload.optimizer), "/", name_of(l.offload.gradients), "/",
              name_of(l.offload.parameters), "/", name_of(l.offload.activations), " tile ",
              l.offload.tile);
}

SampleSource random_samples(const ModelOptions& model, std::uint64_t seed) {
  return [model, key = key_from_seed(seed)](std::int64_t first, std::int64_t count,
                                            std::vector<std::int32_t>& ids,
                                            std::vector<std::int32_t>& labels) {
    const auto id = [&](std::int64_t sample, std::int64_t token) {
      const std::uint32_t word =
          random_word(key, static_cast<std::uint64_t>(sample * (model.sequence + 1) + token));
      return static_cast<std::int32_t>(word % static_cast<std::uint32_t>(model.vocab));
    };
    ids.clear();
    labels.clear();
    for (std::int64_t s = first; s < first + count; ++s) {
      for (std::int64_t t = 0; t < model.sequence; ++t) ids.push_back(id(s, t));
      if (model.family == Family::kMlp)
        labels.push_back(id(s, model.sequence));
      else
        for (std::int64_t t = 1; t <= model.sequence; ++t)
          labels.push_back((s + t) % 7 == 0 ? -1 : id(s, t));
    }
  };
}

SampleSource samples_of(const Task& task) {
  const SampleSource plain = random_samples(task.model, task.seed);
  if (!task.documents) return plain;
  const auto starts = [key = key_from_seed(task.seed).child("documents"),
                       tokens = task.model.sequence](std::int64_t first, std::int64_t count,
                                                     std::vector<std::int32_t>& to) {
    to.clear();
    for (std::int64_t s = first; s < first + count; ++s)
      for (std::int64_t t = 0, start = 0; t < tokens; ++t) {
        if (random_word(key, static_cast<std::uint64_t>(s * tokens + t)) % 3 == 0) start = t;
        to.push_back(static_cast<std::int32_t>(start));
      }
  };
  return {plain, starts};
}

void LogicalTensors::add(Rank& rank, bool gradients) {
  const std::vector<Unit*> units = rank.engine.stage().units();
  for (Unit* unit : units) unit->gather();
  rank.engine.stage().visit([&](Parameter& p) {
    if (gradients && !p.spec().trainable) return;
    const std::vector<double> values = download_doubles(rank.backend, gradients ? p.grad : p.value);
    const Shape& local = p.spec().shape;
    const std::int64_t columns = local.dims() < 2 ? 1 : local[1];
    std::scoped_lock lock(mutex_);
    for (const Section& s : p.spec().sections) {
      const std::int64_t whole = s.logical.dims() < 2 ? 1 : s.logical[1];
      auto& tensor =
          tensors_.try_emplace(s.name, static_cast<std::size_t>(s.logical.elements()), std::nan(""))
              .first->second;
      for (std::int64_t i = 0; i < s.rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j) {
          double& slot =
              tensor[static_cast<std::size_t>((s.global_row + i) * whole + s.global_column + j)];
          const double value = values[static_cast<std::size_t>((s.local_row + i) * columns + j)];
          check(std::isnan(slot) || slot == value, "copies of ", s.name, " differ: ", slot, " and ",
                value);
          slot = value;
        }
    }
  });
  for (Unit* unit : units) unit->release();
}

SectionSource source_of(const Logical& tensors) {
  return [&tensors](const Section& s, std::int64_t columns, std::span<double> rectangle) {
    const auto it = tensors.find(s.name);
    check(
        it != tensors.end() && static_cast<std::int64_t>(it->second.size()) == s.logical.elements(),
        "no logical tensor ", s.name, " of shape ", s.logical);
    const std::int64_t whole = s.logical.dims() < 2 ? 1 : s.logical[1];
    for (std::int64_t i = 0; i < s.rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        rectangle[static_cast<std::size_t>(i * columns + j)] =
            it->second[static_cast<std::size_t>((s.global_row + i) * whole + s.global_column + j)];
  };
}

namespace {

EngineOptions engine_options(const Task& task, const Layout& layout) {
  return {
      .model = task.model,
      .stage = {.plan = {.sequence_parallel = layout.sequence_parallel,
                         .recompute = layout.recompute,
                         .recompute_every = layout.recompute_every,
                         .frozen = task.frozen,
                         .weights = task.weights},
                .zero_stage = layout.zero_stage,
                .shard_ranks = layout.shard_ranks,
                .reshard = layout.reshard,
                .overlap = layout.overlap,
                .max_live = layout.max_live,
                .partition_activations = layout.partition_activations,
                .compute = task.compute,
                .gradients = task.narrow_gradients ? task.compute : accumulation_type(task.compute),
                .offload = layout.offload},
      .optimizer = {.optimizer = task.optimizer,
                    .schedule = {.shape = task.lr_shape, .lr = task.lr, .steps = 10},
                    .loss_scale = task.loss_scale,
                    .clip = task.clip},
      .schedule = layout.schedule,
      .chunks = layout.chunks,
      .partition = layout.partition,
      .global_batch = task.global_batch,
      .micro_batch = layout.micro,
      .label_smoothing = task.label_smoothing,
      .reset_attention_mask = task.documents,
      .seed = task.seed,
      .forward_only = task.forward_only,
      .state_copy = task.state_copy};
}

}  // namespace

void run_layout(const Task& task, const Layout& layout, const std::function<void(Rank&)>& body) {
  const auto scratch =
      layout.offload.on_disk() ? std::make_unique<testing::TemporaryFolder>() : nullptr;
  run_thread_ranks(layout.mesh.ranks(), task.communicator, [&](Communicator& plain) {
    auto ledger = std::make_shared<MemoryLedger>();
    const std::unique_ptr<Communicator> seen = task.network ? task.network(plain) : nullptr;
    Communicator& world = seen ? *seen : plain;
    {
      const auto backend = task.backend(ledger);
      world.attach(*backend);
      Mesh mesh(world, layout.mesh);
      const auto host = make_reference_backend(ledger);
      const auto files = task.files();
      const bool disk = layout.offload.on_disk();
      EngineResources resources{.host = host.get(), .files = files.get()};
      if (disk) resources.folder = {.folder = scratch->path(), .name = join("rank-", world.rank())};
      Engine engine(engine_options(task, layout), mesh, *backend, resources);
      if (task.forward_only) engine.kept().fill_initial();
      Rank rank{engine, mesh, *backend};
      body(rank);
      world.barrier();
    }
    for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk})
      check(ledger->current(tier) == 0, "memory: ", ledger->current(tier), " bytes on the ",
            name_of(tier), " tier were never given back");
  });
}

Curve train(const Task& task, const Layout& layout) {
  Curve curve;
  LogicalTensors weights, gradients;
  const SampleSource source = samples_of(task);
  run_layout(task, layout, [&](Rank& rank) {
    for (int step = 0; step < task.steps; ++step) {
      const EngineStep result = rank.engine.train(step, source);
      if (step == 0 && layout.zero_stage == 0) gradients.add_gradients(rank);
      if (!rank.first()) continue;
      curve.losses.push_back(result.loss);
      curve.norms.push_back(result.optimizer.grad_norm);
    }
    weights.add_weights(rank);
    const double validation = rank.engine.evaluate(5, source);
    if (rank.first()) curve.validation = validation;
  });
  curve.weights = weights.tensors();
  curve.gradients = gradients.tensors();
  return curve;
}

namespace {

// |a - b| / |a|, infinite where that is no number: 0 / 0 proves nothing.
double relative(double a, double b) {
  const double gap = std::abs(a - b) / std::abs(a);
  return std::isnan(gap) ? INFINITY : gap;
}

}  // namespace

double distance(const Curve& a, const Curve& b) {
  if (a.losses.size() != b.losses.size() || a.losses.empty()) return INFINITY;
  double worst = relative(a.validation, b.validation);
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    worst = std::max({worst, relative(a.losses[i], b.losses[i]), relative(a.norms[i], b.norms[i])});
  return worst;
}

double distance(const Logical& a, const Logical& b) {
  double largest = 0, difference = 0;
  if (a.size() != b.size() || a.empty()) return INFINITY;
  for (const auto& [name, values] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second.size() != values.size()) return INFINITY;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double gap = std::abs(values[i] - other->second[i]);
      if (!(gap <= INFINITY)) return INFINITY;
      largest = std::max(largest, std::abs(values[i]));
      difference = std::max(difference, gap);
    }
  }
  return largest > 0 ? difference / largest : INFINITY;
}

}  // namespace trireme::parity
