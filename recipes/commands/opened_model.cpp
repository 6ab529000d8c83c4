#include "recipes/commands/opened_model.h"

#include <algorithm>
#include <ostream>

#include "framework/base/error.h"
#include "framework/data/chat_prompt.h"
#include "recipes/cli/recipe_text.h"
#include "recipes/cli/values.h"
#include "recipes/commands/checkpoint_place.h"
#include "recipes/commands/tokenizing.h"
#include "recipes/huggingface/folder.h"
#include "recipes/huggingface/generation_config.h"
#include "recipes/train/model_start.h"
#include "recipes/train/plan.h"
#include "recipes/train/save_session.h"

namespace trireme {

namespace {

constexpr std::int64_t kMostTokens = 1024;  // of a window, unless a flag says otherwise
constexpr std::int64_t kRowsAtOnce = 1024;  // tokens of a micro-batch

// Of a flag that is a good number; what is wrong with another one, parse_recipe tells.
std::int64_t flag_or(const CommandLine& line, std::string_view name, std::int64_t otherwise) {
  std::int64_t found = otherwise;
  for (const Flag& flag : line.flags)
    if (flag.name == name && flag.value) found = parse_count(*flag.value).value_or(otherwise);
  return std::max<std::int64_t>(1, found);
}

struct BatchKeys {
  std::int64_t sequence, micro, global;
};
BatchKeys batch_keys(const CommandLine& line, std::int64_t sequence) {
  BatchKeys keys{.sequence = flag_or(line, "batch.sequence", sequence), .micro = 1, .global = 1};
  keys.micro = flag_or(line, "batch.micro", std::max<std::int64_t>(1, kRowsAtOnce / keys.sequence));
  keys.global = flag_or(line, "batch.global", keys.micro * flag_or(line, "parallel.data", 1));
  return keys;
}

// The model of a checkpoint on one rank, without states; flags come last.
Recipe recipe_of_checkpoint(const CommandLine& line, const Manifest& saved,
                            const std::string& place) {
  const std::string origin = place + "/recipe.cfg";
  Recipe r = parse_recipe({.file = origin, .text = saved.recipe});
  const Recipe plain = parse_recipe({});
  r.parallel = plain.parallel;
  r.pipeline = plain.pipeline;
  r.recompute = plain.recompute;
  r.zero = plain.zero;
  r.offload = plain.offload;
  r.device.memory = 0;
  r.data.text.clear();
  r.data.tokens.clear();
  r.train.resume = r.train.restart = false;
  r.train.verify_every = 0;
  const BatchKeys keys = batch_keys(line, r.batch.sequence);
  r.batch.micro = keys.micro;
  r.batch.global = keys.global;
  return parse_recipe({.file = origin, .text = resolved_text(r), .flags = line.flags});
}

Recipe recipe_of_folder(Files& files, const CommandLine& line, const std::string& folder) {
  const HfModel model = hf_model_of(files, folder);
  const BatchKeys keys = batch_keys(line, std::min(model.context, kMostTokens));
  RecipeInput input{.flags = {{"data.tokenizer", folder},
                              {"batch.sequence", join(keys.sequence)},
                              {"batch.micro", join(keys.micro)},
                              {"batch.global", join(keys.global)}}};
  input.flags.insert(input.flags.end(), line.flags.begin(), line.flags.end());
  input.flags.push_back({"model.from", folder});
  input.model_keys_of = [&](const std::string&) {
    return ModelKeys{path_join(folder, "config.json"), model.keys};
  };
  return parse_recipe(input);
}

void expect_scratch_folder(const Recipe& r) {
  for (const std::string& tier :
       {r.offload.parameters, r.offload.optimizer, r.offload.gradients, r.offload.activations})
    if (tier == "disk" && r.offload.folder.empty())
      throw UsageError("a tier of --offload is disk: give --offload.folder a folder for its files");
}

ModelSource source_of(Process& process, Recipe recipe, std::string place, std::int64_t step) {
  resolve_for_machine(recipe,
                      {.cores = process.cores(),
                       .local_ranks = static_cast<int>(recipe.parallel.ranks()),
                       .bf16 = cpu_multiplies_bf16()},
                      recipe.model.vocab);
  expect_scratch_folder(recipe);
  ModelSource source{.place = std::move(place), .step = step, .recipe = std::move(recipe)};
  source.tokenizer = make_tokenizer(source.recipe.data.tokenizer, process.files);
  expect_room(*source.tokenizer, source.recipe.model.vocab);
  source.from_folder = !source.recipe.model.from.empty();
  if (source.from_folder) {
    source.start = start_id_of(*source.tokenizer);
    source.ends = end_ids_of(process.files, source.recipe.model.from);
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

// Loads the weights of one rank; false, on all ranks alike, if they are damaged.
using Load = std::function<bool(const SaveRank&)>;

void run_ranks(Process& process, const ModelSource& source, const Load& load,
               const ModelWork& work) {
  const MeshShape shape = mesh_shape(source.recipe);
  run_thread_ranks(
      shape.ranks(), {.timeout_seconds = source.recipe.parallel.timeout},
      [&](Communicator& world) {
        const std::unique_ptr<Backend> backend = make_backend(source.recipe);
        world.attach(*backend);
        Mesh mesh(world, shape);
        EngineOptions options = engine_options(source.recipe);
        options.forward_only = true;
        Engine engine(options, mesh, *backend, resources_of(process, source.recipe, world.rank()));
        if (load({nullptr, engine, mesh, *backend, *backend}))
          work({source, engine, mesh, *backend});
        world.barrier();
      },
      [&](int rank) { return rank_prefix(shape, rank); });
}

// Empty, or what is damaged.
std::string try_checkpoint(Process& process, const CommandLine& line, const std::string& place,
                           const std::function<ModelWork(const ModelSource&)>& prepare) {
  const std::vector<std::string> problems = glance_at_checkpoint(process.files, place);
  if (!problems.empty()) return problems[0];
  const Manifest saved = read_manifest(process.files, place);
  const ModelSource source =
      source_of(process, recipe_of_checkpoint(line, saved, place), place, saved.step);
  const std::int64_t ranks = source.recipe.parallel.ranks();
  SaveSession session(process.files, folder_of(place), 0, static_cast<int>(ranks),
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
          if (rank.mesh.world().rank() == 0) damage = error.what();
          return false;
        }
      },
      work);
  return damage;
}

}  // namespace

void open_model(Process& process, const CommandLine& line, const std::string& folder,
                const std::function<ModelWork(const ModelSource&)>& prepare) {
  if (process.under_launcher)
    throw UsageError(join(line.command, ": runs in one process; start it without a launcher"));
  if (process.files.exists(path_join(folder, "config.json"))) {
    const ModelSource source =
        source_of(process, recipe_of_folder(process.files, line, folder), folder, 0);
    run_ranks(
        process, source,
        [&](const SaveRank& rank) {
          load_model_folder(rank, process.files, folder);
          return true;
        },
        prepare(source));
    return;
  }
  const std::vector<std::string> all = checkpoints_in(process.files, folder);
  std::string passed_over;
  for (auto place = all.rbegin(); place != all.rend(); ++place) {
    const std::string damage = try_checkpoint(process, line, *place, prepare);
    if (damage.empty()) {
      process.err << passed_over << std::flush;
      return;
    }
    passed_over += "passed over: " + damage + "\n";
  }
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
