// A recipe: everything that a training run is told, as plain typed values, section by section.
//
// A Recipe is a value. parse_recipe makes it (recipes/cli/parse.h): every member then holds a legal
// value, and what was left to choose (heads of keys and values, width of the feed-forward layer,
// ...) is resolved. The meaning, unit, range and default of a key live in one place, the key table
// (recipes/cli/keys.h); the initial values here are only "nothing yet" and default_recipe() fills
// in the table's. A member has the name of its key: recipe.model.layers is `model.layers`.
// Choices are kept as their words ("1f1b"), so that a later version extends the table alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct ModelSection {
  std::string family;          // gpt2, llama, mlp
  std::int64_t layers = 0;     // blocks, without embedding and head
  std::int64_t hidden = 0;     // columns
  std::int64_t heads = 0;      // of queries
  std::int64_t kv_heads = 0;   // of keys and values; divides heads
  std::int64_t head_dim = 0;   // columns of one head
  std::int64_t ffn = 0;        // columns between the two (three, if gated) linears
  std::int64_t vocab = 0;      // token ids; 0: as many as the data's tokenizer has
  std::string bias;            // of linears: all, qkv, none
  std::string norm;            // layer, rms, rms1
  double norm_eps = 0;         // added to variances
  bool qk_norm = false;        // of each query and key head
  std::string activation;      // gelu, swiglu, geglu
  std::string position;        // learned, rotary
  std::int64_t positions = 0;  // rows of the learned table; 0: batch.sequence
  double rope_theta = 0;       // base of the rotary frequencies
  std::string rope_scaling;    // none, linear:FACTOR, llama3:...; see parse_rope_scaling
  std::int64_t window = 0;     // tokens that a query sees; 0: all before it
  bool scale_embeddings = false;
  bool tie_embeddings = false;  // head = embedding, transposed
  double dropout = 0;           // probability
  std::string from;             // folder to start from
  bool operator==(const ModelSection&) const = default;
};

struct DataSection {
  std::string text;       // file
  std::string tokens;     // HDF5 file
  std::string tokenizer;  // resolved: bytes, or the path of a tokenizer.json or of its folder
  std::string loss_on;    // auto, all, assistant, last
  bool skip_bad = false;  // lines that are no records
  // Documents of a sample do not see each other.
  bool reset_attention_mask = false;
  double validation = 0;  // fraction held out
  bool shuffle = false;
  std::string skip;  // global batches, "7,100-200", numbered from 1
  bool operator==(const DataSection&) const = default;
};

struct BatchSection {
  std::int64_t global = 0;    // samples a step, over all data ranks
  std::int64_t micro = 0;     // samples a micro-batch, of one data rank
  std::int64_t sequence = 0;  // tokens a sample
  bool operator==(const BatchSection&) const = default;
};

struct ParallelSection {
  std::int64_t data = 0, tensor = 0, pipeline = 0;  // ranks along each axis of the mesh
  bool sequence = false;                            // sequence parallelism over the tensor axis
  std::string launch;                               // threads, mpi
  std::int64_t threads = 0;                         // of one rank; 0: cores / local ranks
  double timeout = 0;                               // seconds of one collective
  bool operator==(const ParallelSection&) const = default;
  std::int64_t ranks() const { return data * tensor * pipeline; }
};

struct PipelineSection {
  std::string schedule;     // gpipe, 1f1b, interleaved, zb-h1
  std::int64_t chunks = 0;  // model chunks of one rank; 1 unless interleaved
  std::vector<std::int64_t>
      partition;  // list entries of each chunk, in model order; empty: by cost
  bool operator==(const PipelineSection&) const = default;
};

struct RecomputeSection {
  std::string mode;        // none, full, selective
  std::int64_t every = 0;  // layers a segment, with full
  bool partition = false;
  bool operator==(const RecomputeSection&) const = default;
};

struct ZeroSection {
  std::int64_t stage = 0;
  std::string reshard;           // forward, backward, step
  std::int64_t shard_ranks = 0;  // 0: all data ranks
  bool overlap = false;
  std::int64_t max_live_parameters = 0;  // elements; 0: no limit
  bool operator==(const ZeroSection&) const = default;
};

struct OffloadSection {
  std::string optimizer, gradients, parameters, activations, kv_cache;  // none, host, disk
  std::string folder;
  std::int64_t slots = 0;  // of streamed weights; 0: auto
  std::string resident;    // auto, or bytes
  bool operator==(const OffloadSection&) const = default;
};

struct PrecisionSection {
  std::string compute;    // auto, f32, bf16, f16, f64; the trainer resolves auto
  std::string gradients;  // f32 (or wider), compute
  double loss_scale = 0;  // 0: dynamic
  double initial_loss_scale = 0, min_loss_scale = 0;
  std::int64_t loss_scale_window = 0;      // steps
  std::int64_t loss_scale_hysteresis = 0;  // overflows
  bool operator==(const PrecisionSection&) const = default;
};

struct OptimizerSection {
  std::string name;  // adamw, adam, sgd
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, momentum = 0, weight_decay = 0;
  double clip = 0;             // largest global gradient norm; 0: no clipping
  std::string schedule;        // constant, linear, cosine, wsd
  std::int64_t warmup = 0;     // steps
  std::int64_t decay = 0;      // steps of the last phase of wsd; resolved, never 0 there
  double min_lr = 0;           // at the end of the schedule
  double label_smoothing = 0;  // probability spread over the vocabulary
  bool operator==(const OptimizerSection&) const = default;
};

// Low-rank adapters beside frozen linears.
struct LoraSection {
  std::int64_t rank = 0;  // 0: off
  double alpha = 0;
  bool rslora = false;
  std::string targets;  // PEFT's names, commas between them
  double dropout = 0;
  bool operator==(const LoraSection&) const = default;
};

// Of models that are only run.
struct InferenceSection {
  std::string weights;  // full, int8, int4
  bool operator==(const InferenceSection&) const = default;
};

struct TrainSection {
  std::int64_t steps = 0;
  std::int64_t seed = 0;
  std::string folder;
  std::string freeze, train_only;     // patterns of logical tensors, commas between them
  std::int64_t log_every = 0;         // steps
  std::int64_t evaluate_every = 0;    // steps; 0: never
  std::int64_t evaluate_samples = 0;  // of one evaluation, at most
  std::int64_t sample_every = 0;      // steps; 0: never
  std::string sample_prompts;         // file
  std::int64_t sample_tokens = 0;     // of a sample, at most
  std::int64_t checkpoint_every = 0;  // steps; 0: never
  bool async_checkpoint = false;
  std::int64_t keep = 0;        // checkpoints
  std::int64_t keep_every = 0;  // steps; 0: never
  std::string exports;          // train.export: none, hf
  bool resume = false, restart = false;
  std::int64_t max_skipped = 0;   // steps in a row
  double stop_on_norm = 0;        // of the gradient, before clipping; 0: never
  bool check_replicas = false;    // compare copies of parameters every step
  std::int64_t verify_every = 0;  // steps; 0: never
  std::string trace;              // steps A:B, or empty; see parse_step_range
  bool operator==(const TrainSection&) const = default;
};

struct DeviceSection {
  std::string kind;         // reference, cpu, cuda
  std::int64_t memory = 0;  // bytes of one rank; 0: no limit
  bool operator==(const DeviceSection&) const = default;
};

// A scaling of rotary frequencies: "none"; "linear" and its factor; "llama3" and its factor, low
// and high frequency factors and original context.
struct RopeScalingWords {
  std::string kind;
  std::vector<double> numbers;
};
// "none", "linear:4", "llama3:8,1,4,8192". Throws UsageError otherwise.
RopeScalingWords parse_rope_scaling(const std::string& text);

struct Recipe {
  ModelSection model;
  DataSection data;
  BatchSection batch;
  ParallelSection parallel;
  PipelineSection pipeline;
  RecomputeSection recompute;
  ZeroSection zero;
  OffloadSection offload;
  PrecisionSection precision;
  OptimizerSection optimizer;
  TrainSection train;
  DeviceSection device;
  LoraSection lora;
  InferenceSection inference;
  bool operator==(const Recipe&) const = default;

  // Micro-batches that one data rank works through in a step; the last may be smaller.
  std::int64_t micro_batches() const {
    std::int64_t share = batch.global / parallel.data;
    return (share + batch.micro - 1) / batch.micro;
  }
};

// Steps [begin, end], both included.
struct StepRange {
  std::int64_t begin = 0, end = -1;
  bool contains(std::int64_t step) const { return begin <= step && step <= end; }
};
// "10:13" or "10"; an empty text is the empty range. Throws UsageError otherwise.
StepRange parse_step_range(const std::string& text);

}  // namespace trireme
