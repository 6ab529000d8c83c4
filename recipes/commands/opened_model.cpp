#include "recipes/commands/opened_model.h"

#include <algorithm>
#include <chrono>
#include <ostream>

#include "framework/base/error.h"
#include "framework/data/chat_prompt.h"
#include "recipes/cli/keys.h"
#include "recipes/cli/recipe_text.h"
#include "recipes/cli/values.h"
#include "recipes/commands/checkpoint_place.h"
#include "recipes/commands/stream_text.h"
#include "recipes/commands/text_engine.h"
#include "recipes/commands/tokenizing.h"
#include "recipes/huggingface/folder.h"
#include "recipes/report/numbers.h"
#include "recipes/report/printable.h"
#include "recipes/train/gather.h"
#include "recipes/train/model_start.h"
#include "recipes/train/plan.h"
#include "recipes/train/save_session.h"

namespace trireme {

namespace {

constexpr std::int64_t kMostTokens = 1024;  // of a window, unless a flag says otherwise
constexpr std::int64_t kRowsAtOnce = 1024;  // tokens of a micro-batch

// What a flag, or else the environment, says of a key; the last of several flags.
std::optional<std::string> said(const Process& process, const CommandLine& line,
                                std::string_view name) {
  std::optional<std::string> found;
  for (const Key& key : keys())
    if (const auto at = process.environment.find(key.environment());
        key.full_name() == name && at != process.environment.end())
      found = at->second;
  for (const Flag& flag : line.flags)
    if (flag.name == name && flag.value) found = flag.value;
  return found;
}

// Of a good number; what is wrong with another one, parse_recipe tells.
std::int64_t said_or(const Process& process, const CommandLine& line, std::string_view name,
                     std::int64_t otherwise) {
  const std::optional<std::string> text = said(process, line, name);
  return std::max<std::int64_t>(1, text ? parse_count(*text).value_or(otherwise) : otherwise);
}

struct BatchKeys {
  std::int64_t sequence, micro, global;
};
BatchKeys batch_keys(const Process& process, const CommandLine& line, std::int64_t sequence) {
  const auto key = [&](std::string_view name, std::int64_t otherwise) {
    return said_or(process, line, name, otherwise);
  };
  BatchKeys keys{.sequence = key("batch.sequence", sequence), .micro = 1, .global = 1};
  keys.micro = key("batch.micro", std::max<std::int64_t>(1, kRowsAtOnce / keys.sequence));
  keys.global = key("batch.global", keys.micro * key("parallel.data", 1));
  return keys;
}

// Streamed weights are shards: at stage 3.
bool streams(const Process& process, const CommandLine& line) {
  return said(process, line, "offload.parameters").value_or("none") != "none";
}

// The model of a checkpoint on one rank, without states; flags come last.
Recipe recipe_of_checkpoint(const Process& process, const CommandLine& line, const Manifest& saved,
                            const std::string& place) {
  const std::string origin = place + "/recipe.cfg";
  Recipe r = parse_recipe({.file = origin, .text = saved.recipe});
  const Recipe plain = parse_recipe({});
  r.parallel = plain.parallel;
  r.parallel.launch = "auto";
  r.pipeline = plain.pipeline;
  r.recompute = plain.recompute;
  r.zero = plain.zero;
  r.offload = plain.offload;
  if (streams(process, line)) r.zero.stage = 3;
  r.device.memory = 0;
  r.data.text.clear();
  r.data.tokens.clear();
  r.train.resume = r.train.restart = false;
  r.train.verify_every = 0;
  const BatchKeys keys = batch_keys(process, line, r.batch.sequence);
  r.batch.micro = keys.micro;
  r.batch.global = keys.global;
  return parse_recipe({.file = origin,
                       .text = resolved_text(r),
                       .flags = line.flags,
                       .environment = process.environment,
                       .under_launcher = process.under_launcher});
}

// What the command line wants else than the machine's own type, if it says.
std::optional<std::string> wanted_type(const Process& process, const CommandLine& line) {
  const auto type = said(process, line, "precision.compute");
  return type == "auto" ? std::nullopt : type;
}
bool quantizes(const Process& process, const CommandLine& line) {
  return said(process, line, "inference.weights").value_or("full") != "full";
}

Recipe recipe_of_folder(Process& process, const CommandLine& line, const HfModel& model,
                        const std::string& folder) {
  const BatchKeys keys = batch_keys(process, line, std::min(model.context, kMostTokens));
  RecipeInput input{.flags = {{"batch.sequence", join(keys.sequence)},
                              {"batch.micro", join(keys.micro)},
                              {"batch.global", join(keys.global)}},
                    .environment = process.environment,
                    .under_launcher = process.under_launcher,
                    .model_keys_of = model_keys_reader(process.files)};
  if (streams(process, line)) input.flags.push_back({"zero.stage", "3"});
  // Read where they lie, as they are: half the bytes of f32, which a CPU without bf16 would else
  // take.
  if (said(process, line, "offload.parameters") == "disk" && model.dtype == DType::kBF16 &&
      !wanted_type(process, line) && !quantizes(process, line))
    input.flags.push_back({"precision.compute", "bf16"});
  input.flags.insert(input.flags.end(), line.flags.begin(), line.flags.end());
  input.flags.push_back({"model.from", folder});
  return parse_recipe(input);
}

void expect_scratch_folder(const Recipe& r) {
  for (const std::string& tier : {r.offload.optimizer, r.offload.gradients, r.offload.activations})
    if (tier == "disk" && r.offload.folder.empty())
      throw UsageError("a tier of --offload is disk: give --offload.folder a folder for its files");
}

// Of this machine.
int local_ranks(Process& process, const Recipe& recipe) {
  return process.under_launcher ? process.mpi().local_ranks()
                                : static_cast<int>(recipe.parallel.ranks());
}

// Of this process, which is one rank under a launcher.
int own_ranks(const Process& process, const Recipe& recipe) {
  return process.under_launcher ? 1 : static_cast<int>(recipe.parallel.ranks());
}

ModelSource source_of(Process& process, Recipe recipe, std::string place, std::int64_t step) {
  resolve_for_machine(recipe,
                      {.cores = process.cores(),
                       .local_ranks = local_ranks(process, recipe),
                       .bf16 = cpu_multiplies_bf16()},
                      recipe.model.vocab);
  expect_scratch_folder(recipe);
  ModelSource source{.place = std::move(place), .step = step, .recipe = std::move(recipe)};
  source.tokenizer = make_tokenizer(source.recipe.data.tokenizer, process.files);
  expect_room(*source.tokenizer, source.recipe);
  source.from_folder = !source.recipe.model.from.empty();
  if (source.from_folder) {
    source.start = start_id_of(*source.tokenizer);
    source.ends = end_ids_of(process.files, source.recipe.model.from);
    source.drawing = drawing_defaults_of(process.files, source.recipe.model.from);
    for (const std::int32_t id : source.ends)
      check(id < source.recipe.model.vocab, source.recipe.model.from, ": eos_token_id ", id,
            " is no id of the model, which has ", source.recipe.model.vocab, " of them");
  }
  source.answer_ends = source.ends;
  const std::vector<std::int32_t> learned = learned_ends(*source.tokenizer);
  source.answer_ends.insert(source.answer_ends.end(), learned.begin(), learned.end());
  if (source.from_folder && step > 0) source.ends = source.answer_ends;
  return source;
}

EngineResources resources_of(Process& process, const Recipe& recipe, int rank) {
  return {.files = &process.files,
          .folder = {.folder = recipe.offload.folder, .name = join("look-", rank)}};
}

// Runs `work` as every rank of the mesh: on threads, or as the one that this process is.
void on_ranks(Process& process, const Recipe& recipe,
              const std::function<void(Communicator&)>& work) {
  const MeshShape shape = mesh_shape(recipe);
  const CommunicatorOptions options{.timeout_seconds = recipe.parallel.timeout};
  const auto prefix = [&](int rank) { return rank_prefix(shape, rank); };
  if (!process.under_launcher) return run_thread_ranks(shape.ranks(), options, work, prefix);
  const auto world = process.mpi().world(options);
  if (world->size() != shape.ranks())
    throw UsageError(join("parallel.data x parallel.pipeline x parallel.tensor = ", shape.ranks(),
                          " ranks, but the launcher started ", world->size()));
  try {
    work(*world);
  } catch (const UsageError& error) {
    throw UsageError(prefix(world->rank()) + error.what());
  } catch (const std::exception& error) {
    throw Error(prefix(world->rank()) + reason_of(error));
  }
}

// Loads the weights of one rank; false, on all ranks alike, if they are damaged.
using Load = std::function<bool(const SaveRank&)>;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// "weights int4 (group 64), 86 MiB"; empty if they are held in full.
std::string quantized_opening(const Engine& engine, int ranks) {
  const WeightFormat format = engine.options().stage.plan.weights;
  if (format == WeightFormat::kPlain) return {};
  return join("weights ", name_of(format), ", ", bytes_text(engine.weight_bytes()),
              ranks > 1 ? " on rank 0" : "", "\n");
}

// Work with how weights are held, and what of them is streamed, told by one rank.
void work_and_tell(Process& process, const OpenedModel& model, const ModelWork& work) {
  WeightStream* const stream = model.engine.stage().stream();
  const Communicator& world = model.mesh.world();
  if (world.rank() == 0) process.err << quantized_opening(model.engine, world.size()) << std::flush;
  const bool tells = stream && world.rank() == 0;
  if (tells)
    process.err << stream_opening(stream->streamed(), stream->reads_in_place()) << std::flush;
  work(model);
  if (tells && stream->streamed().slots_bytes() > 0)
    process.err << stream_closing(stream->totals()) << std::flush;
}

CacheWish with_context(CacheWish cache, Files& files, const ModelSource& source) {
  if (!cache.whole) return cache;
  const std::int64_t context = trained_context(files, source);
  cache.tokens = cache.tokens > 0 ? std::min(cache.tokens, context) : context;
  return cache;
}

void run_ranks(Process& process, const ModelSource& source, const Load& load, const ModelWork& work,
               const CacheWish& cache) {
  const MeshShape shape = mesh_shape(source.recipe);
  EngineOptions wanted = engine_options(source.recipe);
  wanted.forward_only = true;
  const MemoryLimit limit =
      memory_limit(process.files, source.recipe.device.memory, local_ranks(process, source.recipe));
  InferenceNeeds needs =
      inference_needs(source.recipe, wanted, with_context(cache, process.files, source), limit);
  needs.copied = source.copied;
  const std::string misfit = inference_misfit(source.recipe, needs, limit, cache.bytes > 0);
  check(misfit.empty(), misfit);
  leave_room(source.recipe, needs, limit, wanted);
  on_ranks(process, source.recipe, [&](Communicator& world) {
    const std::unique_ptr<Backend> backend = make_backend(source.recipe);
    world.attach(*backend);
    Mesh mesh(world, shape);
    Engine engine(wanted, mesh, *backend, resources_of(process, source.recipe, world.rank()));
    if (WeightStream* const stream = engine.stage().stream()) stream->set_clock(seconds);
    if (load({nullptr, engine, mesh, *backend, *backend}))
      work_and_tell(process, {source, engine, mesh, *backend, needs.cache}, work);
    world.barrier();
  });
}

// Empty, or what is damaged.
std::string try_checkpoint(Process& process, const CommandLine& line, const std::string& place,
                           const std::function<ModelWork(const ModelSource&)>& prepare,
                           const CacheWish& cache) {
  const std::vector<std::string> problems = glance_at_checkpoint(process.files, place);
  if (!problems.empty()) return problems[0];
  const Manifest saved = read_manifest(process.files, place);
  ModelSource source =
      source_of(process, recipe_of_checkpoint(process, line, saved, place), place, saved.step);
  source.copied = true;
  if (source.recipe.offload.parameters == "disk" && source.recipe.offload.folder.empty())
    throw UsageError(
        "offload.parameters = disk: the weights of a checkpoint are copied to stream them; give "
        "--offload.folder a folder with room for that");
  const int ranks = own_ranks(process, source.recipe);
  const int first = process.under_launcher ? process.mpi().rank() : 0;
  SaveSession session(process.files, folder_of(place), first, ranks,
                      static_cast<int>(ranks * source.recipe.parallel.threads));
  check(session.folder().folder_of(saved.step) == place, place,
        " is not named after its step: it should be ", session.folder().folder_of(saved.step));
  const ModelWork work = prepare(source);
  std::string damage;  // rank 0's
  run_ranks(
      process, source,
      [&](SaveRank rank) {
        rank.session = &session;
        try {
          load(rank, saved.step, LoadWhat::kWeights);
          return true;
        } catch (const DamagedCheckpoint& error) {  // on all ranks alike
          if (rank.mesh.world().rank() == first) damage = error.what();
          return false;
        }
      },
      work, cache);
  return damage;
}

}  // namespace

void use_defaults(const DrawingDefaults& folder, const CommandLine& line, Sampling& s) {
  const auto use = [&](const char* name, const auto& said, auto& value) {
    if (said && !line.options.contains(name)) value = *said;
  };
  use("temperature", folder.temperature, s.temperature);
  use("top_k", folder.top_k, s.top_k);
  use("top_p", folder.top_p, s.top_p);
  use("min_p", folder.min_p, s.min_p);
  use("repetition_penalty", folder.repetition_penalty, s.repetition_penalty);
}

bool asked_to_end(const Process& process, const OpenedModel& model) {
  const double mine = process.signals.load() > 0 ? 1 : 0;
  return reduce_values(model.mesh.world(), model.backend, {mine}, ReduceOp::kMax).front() > 0;
}

bool leads(Process& process) { return !process.under_launcher || process.mpi().rank() == 0; }

void open_model(Process& process, const CommandLine& line, const std::string& folder,
                const std::function<ModelWork(const ModelSource&)>& prepare,
                const CacheWish& cache) {
  if (process.files.exists(path_join(folder, "config.json"))) {
    const HfModel model = hf_model_of(process.files, folder);
    ModelSource source =
        source_of(process, recipe_of_folder(process, line, model, folder), folder, 0);
    const auto wanted = wanted_type(process, line);
    source.copied =
        quantizes(process, line) || (model.dtype && wanted && name_of(*model.dtype) != *wanted);
    run_ranks(
        process, source,
        [&](const SaveRank& rank) {
          load_model_folder(rank, process.files, folder);
          return true;
        },
        prepare(source), cache);
    return;
  }
  const std::vector<std::string> all = checkpoints_in(process.files, folder);
  std::string passed_over;
  for (auto place = all.rbegin(); place != all.rend(); ++place) {
    const std::string damage = try_checkpoint(process, line, *place, prepare, cache);
    if (damage.empty()) {
      if (leads(process)) process.err << passed_over << std::flush;
      return;
    }
    passed_over += "passed over: " + printable(damage) + "\n";
  }
  if (passed_over.ends_with('\n')) passed_over.pop_back();
  fail(folder, ": no checkpoint is good:\n", passed_over);
}

std::optional<std::int32_t> start_id_of(const Tokenizer& tokenizer) {
  std::vector<std::int32_t> plain, whole;
  tokenizer.encode("a", plain);
  tokenizer.encode("a", whole, {.ends = true});
  if (whole.size() <= plain.size() || whole[0] == plain[0]) return std::nullopt;
  return whole[0];
}

}  // namespace trireme
