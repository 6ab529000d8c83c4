#include "recipes/train/plan.h"

#include <algorithm>
#include <map>

#include "framework/base/error.h"
#include "recipes/cli/values.h"
#include "recipes/train/freezing.h"

namespace trireme {

namespace {

template <typename T>
T chosen(const std::map<std::string, T>& choices, const std::string& word) {
  const auto it = choices.find(word);
  check(it != choices.end(), "recipe: \"", word, "\" has no meaning here");
  return it->second;
}

DType compute_type(const std::string& word) {
  return chosen<DType>(
      {{"f64", DType::kF64}, {"f32", DType::kF32}, {"bf16", DType::kBF16}, {"f16", DType::kF16}},
      word);
}

std::string resolved_precision(const Recipe& r, const Machine& machine) {
  const std::string& wanted = r.precision.compute;
  const bool reference = r.device.kind == "reference";
  const bool narrow = machine.bf16 || r.inference.weights != "full";
  if (wanted == "auto") return !reference && narrow ? "bf16" : "f32";
  if (reference || wanted != "f64") return wanted;
  throw UsageError(join("precision.compute = f64 cannot be computed by device.kind = ",
                        r.device.kind, "; legal values: f32, bf16, f16 or auto"));
}

RopeScaling rope_scaling(const std::string& text) {
  const RopeScalingWords words = parse_rope_scaling(text);
  if (words.kind == "none") return {};
  if (words.kind == "linear")
    return {.kind = RopeScaling::Kind::kLinear, .factor = words.numbers[0]};
  return {.kind = RopeScaling::Kind::kLlama3,
          .factor = words.numbers[0],
          .low = words.numbers[1],
          .high = words.numbers[2],
          .original = words.numbers[3]};
}

ModelOptions model_options(const Recipe& r) {
  const ModelSection& m = r.model;
  ModelOptions o{.family = m.family == "mlp" ? Family::kMlp : Family::kDecoder,
                 .layers = m.layers,
                 .hidden = m.hidden,
                 .heads = m.heads,
                 .kv_heads = m.kv_heads,
                 .head_dim = m.head_dim,
                 .ffn = m.ffn,
                 .vocab = m.vocab,
                 .sequence = r.batch.sequence,
                 .positions = m.positions,
                 .norm_eps = m.norm_eps,
                 .bias = m.bias == "all",
                 .qkv_bias = m.bias == "qkv",
                 .qk_norm = m.qk_norm,
                 .rope_theta = m.rope_theta,
                 .rope_scaling = rope_scaling(m.rope_scaling),
                 .window = m.window,
                 .scale_embeddings = m.scale_embeddings,
                 .tie_embeddings = m.tie_embeddings,
                 .dropout = m.dropout};
  o.norm = chosen<NormKind>({{"layer", NormKind::kLayerNorm},
                             {"rms", NormKind::kRmsNorm},
                             {"rms1", NormKind::kRmsNormPlusOne}},
                            m.norm);
  o.gated = m.activation != "gelu";
  o.activation = m.activation == "swiglu" ? Activation::kSilu : Activation::kGeluTanh;
  o.rotary = m.position == "rotary";
  return o;
}

// Dynamic means no scaling where the format does not need it.
LossScaleOptions loss_scale_options(const PrecisionSection& p) {
  if (p.loss_scale > 0) return {.initial = p.loss_scale};
  if (p.compute != "f16") return {};
  return {.dynamic = true,
          .initial = p.initial_loss_scale,
          .window = p.loss_scale_window,
          .hysteresis = p.loss_scale_hysteresis,
          .minimum = p.min_loss_scale};
}

ZeroOptions zero_options(const Recipe& r) {
  const OptimizerSection& o = r.optimizer;
  return {.optimizer = {.kind = chosen<OptimizerKind>({{"adamw", OptimizerKind::kAdamW},
                                                       {"adam", OptimizerKind::kAdam},
                                                       {"sgd", OptimizerKind::kSgd}},
                                                      o.name),
                        .beta1 = o.beta1,
                        .beta2 = o.beta2,
                        .eps = o.eps,
                        .momentum = o.momentum,
                        .weight_decay = o.weight_decay},
          .schedule = {.shape = chosen<LrShape>({{"constant", LrShape::kConstant},
                                                 {"linear", LrShape::kLinear},
                                                 {"cosine", LrShape::kCosine},
                                                 {"wsd", LrShape::kWsd}},
                                                o.schedule),
                       .lr = o.lr,
                       .min_lr = o.min_lr,
                       .warmup = o.warmup,
                       .steps = r.train.steps,
                       .decay = o.decay},
          .loss_scale = loss_scale_options(r.precision),
          .clip = o.clip,
          .stop_on_norm = r.train.stop_on_norm,
          .initial_values = !r.train.resume && r.model.from.empty(),
          .check_replicas = r.train.check_replicas};
}

Tier tier(const std::string& word) {
  return chosen<Tier>({{"none", Tier::kDevice}, {"host", Tier::kHost}, {"disk", Tier::kDisk}},
                      word);
}

StageOptions stage_options(const Recipe& r) {
  const DType compute = compute_type(r.precision.compute);
  return {.plan = {.sequence_parallel = r.parallel.sequence,
                   .recompute = chosen<RecomputeMode>({{"none", RecomputeMode::kNone},
                                                       {"full", RecomputeMode::kFull},
                                                       {"selective", RecomputeMode::kSelective}},
                                                      r.recompute.mode),
                   .recompute_every = r.recompute.every,
                   .weights = chosen<WeightFormat>({{"full", WeightFormat::kPlain},
                                                    {"int8", WeightFormat::kInt8},
                                                    {"int4", WeightFormat::kInt4}},
                                                   r.inference.weights)},
          .zero_stage = static_cast<int>(r.zero.stage),
          .shard_ranks = static_cast<int>(r.zero.shard_ranks),
          .reshard = chosen<Reshard>({{"forward", Reshard::kForward},
                                      {"backward", Reshard::kBackward},
                                      {"step", Reshard::kStep}},
                                     r.zero.reshard),
          .overlap = r.zero.overlap,
          .max_live = r.zero.max_live_parameters,
          .partition_activations = r.recompute.partition,
          .compute = compute,
          .gradients = r.precision.gradients == "compute" ? compute : accumulation_type(compute),
          .offload = {.optimizer = tier(r.offload.optimizer),
                      .gradients = tier(r.offload.gradients),
                      .parameters = tier(r.offload.parameters),
                      .activations = tier(r.offload.activations),
                      .kv_cache = tier(r.offload.kv_cache),
                      .slots = static_cast<int>(r.offload.slots),
                      .resident = parse_size(r.offload.resident).value_or(0)}};
}

}  // namespace

void resolve_for_machine(Recipe& r, const Machine& machine, std::int64_t vocabulary) {
  r.precision.compute = resolved_precision(r, machine);
  if (r.parallel.threads == 0)
    r.parallel.threads = std::max(1, machine.cores / std::max(1, machine.local_ranks));
  if (r.model.vocab == 0) r.model.vocab = vocabulary;
}

bool is_storage_only(const Recipe& r, const Machine& machine) {
  if (r.device.kind != "cpu") return false;
  return r.precision.compute == "f16" || (r.precision.compute == "bf16" && !machine.bf16);
}

EngineOptions engine_options(const Recipe& r) {
  EngineOptions o{.model = model_options(r),
                  .stage = stage_options(r),
                  .optimizer = zero_options(r),
                  .schedule = schedule_from_name(r.pipeline.schedule),
                  .chunks = static_cast<int>(r.pipeline.chunks),
                  .global_batch = r.batch.global,
                  .micro_batch = r.batch.micro,
                  .label_smoothing = r.optimizer.label_smoothing,
                  .reset_attention_mask = r.data.reset_attention_mask,
                  .seed = static_cast<std::uint64_t>(r.train.seed),
                  .state_copy = r.train.verify_every > 0};
  o.model.lora = lora_options(r);
  o.stage.plan.frozen = frozen_parameters(r, o.model);
  for (std::int64_t count : r.pipeline.partition) o.partition.push_back(static_cast<int>(count));
  return o;
}

SampleOptions sample_options(const Recipe& r) {
  return {.sequence = r.batch.sequence,
          .validation = r.data.validation,
          .shuffle = r.data.shuffle,
          .seed = static_cast<std::uint64_t>(r.train.seed),
          .vocabulary = r.model.vocab,
          .labels = r.model.family == "mlp" ? LabelKind::kNextOfLast : LabelKind::kNextOfEach};
}

MeshShape mesh_shape(const Recipe& r) {
  return {.data = static_cast<int>(r.parallel.data),
          .pipeline = static_cast<int>(r.parallel.pipeline),
          .tensor = static_cast<int>(r.parallel.tensor)};
}

Transport transport_of(const Recipe& r) {
  return r.parallel.launch == "mpi" ? Transport::kMpi : Transport::kThreads;
}

bool saves_in_background(const Recipe& r) {
  const TrainSection& t = r.train;
  return t.async_checkpoint && t.checkpoint_every > 0 && t.checkpoint_every < t.steps &&
         has_snapshot(stage_options(r).offload);
}

std::unique_ptr<Backend> make_backend(const Recipe& r) {
  auto ledger = std::make_shared<MemoryLedger>();
  ledger->set_limit(Tier::kDevice, r.device.memory);
  if (r.device.kind == "reference") return make_reference_backend(std::move(ledger));
  return make_cpu_backend(std::move(ledger), static_cast<int>(r.parallel.threads));
}

}  // namespace trireme
