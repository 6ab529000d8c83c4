#include "recipes/models/engine.h"

#include <algorithm>

#include "framework/backend/host_values.h"
#include "framework/base/error.h"
#include "pipeline/simulator.h"

namespace trireme {

namespace {

int micro_batches(const EngineOptions& o, int data_ranks) {
  const std::int64_t share = o.global_batch / data_ranks;
  return static_cast<int>((share + o.micro_batch - 1) / o.micro_batch);
}

// The batch is checked here, the schedule by simulation: both before anything is allocated.
ActionList checked_actions(const EngineOptions& o, const Mesh& mesh) {
  const int data = mesh.shape().data;
  check(o.micro_batch > 0 && o.global_batch > 0 && o.global_batch % data == 0,
        "batch: ", o.global_batch, " samples cannot be cut over ", data,
        " data ranks into micro-batches of ", o.micro_batch,
        "; the global batch must be a multiple of the data ranks");
  const Schedule schedule =
      make_schedule(o.schedule, mesh.shape().pipeline, micro_batches(o, data), o.chunks);
  check_schedule(schedule);
  return schedule[static_cast<std::size_t>(mesh.coord().pipeline)];
}

std::int64_t counted_labels(const std::vector<std::int32_t>& labels) {
  return std::count_if(labels.begin(), labels.end(), [](std::int32_t label) { return label >= 0; });
}

}  // namespace

Bounds partition_of(const EngineOptions& options, int stages) {
  const std::vector<LayerSpec> layers = layer_list(options.model);
  const int parts = stages * options.chunks;
  if (!options.partition.empty())
    return partition_by_counts(options.partition, parts, static_cast<int>(layers.size()));
  std::vector<double> costs;
  for (const LayerSpec& layer : layers) costs.push_back(layer.forward_flops);
  return partition_min_max(costs, parts);
}

Engine::Engine(const EngineOptions& options, Mesh& mesh, Backend& backend,
               const EngineResources& resources)
    : options_(options),
      mesh_(mesh),
      backend_(backend),
      layers_(layer_list(options.model)),
      bounds_(partition_of(options, mesh.shape().pipeline)),
      actions_(checked_actions(options, mesh)) {
  if (options_.forward_only) {
    options_.stage.forward_only = true;
    options_.stage.plan.frozen = [](const std::string&) { return true; };
    options_.optimizer.initial_values = false;
  }
  // No micro-batch of training is larger than the share, so none of an evaluation may be.
  options_.micro_batch = std::min(options_.micro_batch, options_.global_batch / mesh.shape().data);
  if (options_.stage.offload.any()) {
    check(resources.files || !options_.stage.offload.on_disk(),
          "offload: a tier is on disk, but there are no files");
    place_ =
        std::make_unique<OffloadPlace>(backend, resources.host ? *resources.host : backend,
                                       options_.stage.offload, resources.files, resources.folder);
  }
  stage_ =
      std::make_unique<StageModel>(options_.model, bounds_, options_.chunks, mesh, backend,
                                   options_.stage, actions_, options_.micro_batch, place_.get());
  runner_ = std::make_unique<Runner>(backend, mesh.pipeline(), stage_->chunks());
  if (options_.forward_only) {
    weights_ = std::make_unique<KeptArrays>(stage_->units(), options_.seed);
    kept_ = weights_.get();
  } else {
    make_training();
  }
}

std::int64_t Engine::weight_bytes() const {
  std::int64_t bytes = 0;
  for (const Unit* unit : stage_->units())
    bytes += unit->layout().padded() * size_of(unit->weights().dtype());
  return bytes;
}

// Micro-batches of `count` samples from `first` on; the last may be smaller. Ids go to the first
// stage, labels to the last.
Engine::Batch Engine::load(std::int64_t first, std::int64_t count, std::int64_t micro_samples,
                           const SampleSource& source) {
  Batch batch;
  std::vector<std::int32_t> ids, labels, starts;
  for (std::int64_t done = 0; done < count; done += micro_samples) {
    MicroBatch micro{.samples = std::min(micro_samples, count - done),
                     .first_sample = first + done};
    source(micro.first_sample, micro.samples, ids, labels);
    batch.counted += counted_labels(labels);
    const auto upload = [&](const std::vector<std::int32_t>& values) {
      Tensor t = backend_.allocate({static_cast<std::int64_t>(values.size())}, DType::kI32,
                                   MemoryKind::kActivations);
      upload_ids(backend_, values, t);
      return t;
    };
    if (first_stage()) micro.ids = upload(ids);
    if (last_stage()) micro.target.labels = upload(labels);
    if (source.document_starts()) {
      source.document_starts()(micro.first_sample, micro.samples, starts);
      micro.document_starts = upload(starts);
    }
    batch.micros.push_back(std::move(micro));
  }
  return batch;
}

void Engine::add_uncounted(Batch& batch, const SampleSource& source) {
  const auto fill = [&](std::int64_t first, std::int64_t count, std::vector<std::int32_t>& ids,
                        std::vector<std::int32_t>& labels) {
    source(first, count, ids, labels);
    std::fill(labels.begin(), labels.end(), -1);
  };
  Batch one = load(0, 1, 1, {fill, source.document_starts()});
  batch.micros.push_back(std::move(one.micros.front()));
}

void Engine::aim(Batch& batch, double seed, double smoothing, const Tensor& total) {
  for (MicroBatch& micro : batch.micros) {
    micro.target.seed = seed;
    micro.target.smoothing = smoothing;
    micro.target.total = total;
  }
}

double Engine::sum_over(Communicator& group, double value) {
  if (group.size() == 1) return value;
  Tensor x = backend_.allocate({1}, DType::kF64, MemoryKind::kWorkspace);
  upload_doubles(backend_, std::span(&value, 1), x);
  group.all_reduce(x).wait();
  return download_doubles(backend_, x)[0];
}

RunnerOptions Engine::runner_options(const std::string& label, bool training) const {
  return {.tokens = options_.model.sequence,
          .compute = options_.stage.compute,
          .sequence_parallel = options_.stage.plan.sequence_parallel,
          .row_shards = mesh_.shape().tensor,
          .remake_cheap_outputs =
              training && options_.stage.plan.recompute == RecomputeMode::kSelective,
          .label = label};
}

double Engine::evaluate(std::int64_t samples, const SampleSource& source) {
  mesh_.world().set_place("evaluation");
  const std::int64_t ranks = mesh_.shape().data, rank = mesh_.coord().data;
  const std::int64_t begin = samples * rank / ranks, end = samples * (rank + 1) / ranks;
  Batch batch = load(begin, end - begin, options_.micro_batch, source);
  // Weights that are cut over data ranks are gathered by all of them: shares of one size, the
  // shorter ones filled up with samples that do not count.
  const std::int64_t share = (samples + ranks - 1) / ranks;
  const std::int64_t micros = (share + options_.micro_batch - 1) / options_.micro_batch;
  while (std::ssize(batch.micros) < micros) add_uncounted(batch, source);
  Tensor total = backend_.zeros({1}, DType::kF64, MemoryKind::kWorkspace);
  aim(batch, 0.0, 0.0, total);
  if (micros > 0) {
    const ActionList actions = forward_only(mesh_.shape().pipeline, static_cast<int>(micros),
                                            options_.chunks, mesh_.coord().pipeline);
    stage_->begin_forward_pass(actions);
    runner_->run(actions, batch.micros, runner_options("evaluation", false));
    stage_->end_pass();
  }
  const bool gives_loss = last_stage() && mesh_.coord().tensor == 0;
  const double loss =
      sum_over(mesh_.world(), gives_loss ? download_doubles(backend_, total)[0] : 0.0);
  const double counted = sum_over(mesh_.data(), static_cast<double>(batch.counted));
  return loss / std::max(1.0, counted);
}

// Rows of a cut follow the tokens of a sample, not the training length.
std::vector<Chunk> Engine::chunks_for(std::int64_t tokens) const {
  std::vector<Chunk> chunks = stage_->chunks();
  for (Chunk& chunk : chunks) {
    if (chunk.input.rows_per_sample == options_.model.sequence)
      chunk.input.rows_per_sample = tokens;
    if (chunk.output.rows_per_sample == options_.model.sequence)
      chunk.output.rows_per_sample = tokens;
  }
  return chunks;
}

std::vector<double> Engine::next_logits(const std::vector<std::int32_t>& ids) {
  const auto tokens = static_cast<std::int64_t>(ids.size());
  MicroBatch micro{.samples = 1};
  if (first_stage()) {
    micro.ids = backend_.allocate({tokens}, DType::kI32, MemoryKind::kActivations);
    upload_ids(backend_, ids, micro.ids);
  }
  RunnerOptions options = runner_options("sampling", false);
  options.tokens = tokens;
  options.sequence_parallel = false;
  Runner runner(backend_, mesh_.pipeline(), chunks_for(tokens));
  const ActionList actions =
      forward_only(mesh_.shape().pipeline, 1, options_.chunks, mesh_.coord().pipeline);
  stage_->begin_forward_pass(actions);
  runner.run(actions, std::span(&micro, 1), options);
  stage_->end_pass();
  if (!last_stage()) return {};
  std::vector<double> logits = download_doubles(backend_, runner.output());
  logits.resize(static_cast<std::size_t>(options_.model.vocab));  // without the padding
  return logits;
}

}  // namespace trireme
