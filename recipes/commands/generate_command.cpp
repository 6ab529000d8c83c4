// trireme generate RUN_FOLDER [--prompt TEXT] [--tokens N] [--temperature T] [--top_k K] [--seed N]
// [--section.key=value ...] [--json]: text from the newest good checkpoint of a run.
//
// On one rank, whatever layout saved it; flags of a recipe give another (--parallel.tensor=2).
// Holds weights in the compute type and nothing else; damaged checkpoints are told and passed over.
#include <cmath>
#include <ostream>

#include "framework/base/error.h"
#include "framework/data/tokenizer.h"
#include "recipes/cli/recipe_text.h"
#include "recipes/cli/values.h"
#include "recipes/commands/checkpoint_place.h"
#include "recipes/commands/process.h"
#include "recipes/commands/tokenizing.h"
#include "recipes/report/numbers.h"
#include "recipes/report/printable.h"
#include "recipes/train/plan.h"
#include "recipes/train/sampler.h"
#include "recipes/train/save_session.h"

namespace trireme {

namespace {

struct Request {
  std::string prompt = "\n";
  std::int64_t tokens = 200;
  SamplingOptions sampling{.temperature = 0.8, .top_k = 40, .seed = 1};
};

template <typename Parse>
auto number_of(const CommandLine& line, const char* name, const Parse& parse, double least,
               const char* expected) {
  const std::string& text = line.options.at(name);
  const auto value = parse(text);
  if (!value || static_cast<double>(*value) < least)
    throw UsageError(join("--", name, " = ", text, ": expected ", expected));
  return *value;
}

Request request_of(const CommandLine& line) {
  Request request;
  const auto given = [&](const char* name) { return line.options.contains(name); };
  if (given("prompt")) request.prompt = line.options.at("prompt");
  if (request.prompt.empty()) throw UsageError("--prompt is empty; give it some text");
  if (given("tokens"))
    request.tokens = number_of(line, "tokens", parse_count, 1, "a whole number from 1 on");
  if (given("temperature"))
    request.sampling.temperature =
        number_of(line, "temperature", parse_number, 0, "a number from 0 (the likeliest) on");
  if (given("top_k"))
    request.sampling.top_k = number_of(line, "top_k", parse_count, 0, "a whole number, 0 for all");
  if (given("seed"))
    request.sampling.seed = static_cast<std::uint64_t>(
        number_of(line, "seed", parse_count, 0, "a whole number from 0 on"));
  return request;
}

// Its model on one rank, without states; flags come last.
Recipe recipe_for(const CommandLine& line, const Manifest& saved, const std::string& place) {
  const std::string origin = place + "/recipe.cfg";
  Recipe r = parse_recipe({.file = origin, .text = saved.recipe});
  const Recipe plain = parse_recipe({});
  r.parallel = plain.parallel;
  r.pipeline = plain.pipeline;
  r.recompute = plain.recompute;
  r.zero = plain.zero;
  r.offload = plain.offload;
  r.device.memory = 0;
  r.train.resume = r.train.restart = false;
  return parse_recipe({.file = origin, .text = resolved_text(r), .flags = line.flags});
}

// What one rank made of it: a text, or, on all ranks, a sentence about damage.
struct Generated {
  std::string text, damage;
};

// What `text` adds to the text of `prompt`: at the beginning of a text a blank may be lost.
std::string added_text(const Tokenizer& tokenizer, std::vector<std::int32_t> prompt,
                       const std::vector<std::int32_t>& text) {
  const std::size_t before = tokenizer.decode(prompt).size();
  prompt.insert(prompt.end(), text.begin(), text.end());
  const std::string all = tokenizer.decode(prompt);
  return all.substr(std::min(before, all.size()));
}

Generated generate(const Recipe& recipe, const Tokenizer& tokenizer, SaveSession& session,
                   std::int64_t step, const Request& request, Communicator& world) {
  const std::unique_ptr<Backend> backend = make_backend(recipe);
  world.attach(*backend);
  Mesh mesh(world, mesh_shape(recipe));
  EngineOptions options = engine_options(recipe);
  options.forward_only = true;
  Engine engine(options, mesh, *backend);
  try {
    load({&session, engine, mesh, *backend, *backend}, step, LoadWhat::kWeights);
  } catch (const DamagedCheckpoint& error) {
    return {.damage = error.what()};
  }
  if (mesh.coord().data != 0 && recipe.zero.stage < 3) return {};
  std::vector<std::int32_t> ids;
  tokenizer.encode(request.prompt, ids);
  const std::int64_t window = recipe.batch.sequence;
  if (recipe.model.family == "mlp")
    check(std::ssize(ids) >= window, "--prompt has ", ids.size(),
          " tokens; model.family = mlp sees ", window, " at once and needs that many");
  const std::vector<std::int32_t> text =
      sample(engine, mesh, *backend, ids, request.tokens, window,
             std::min(recipe.model.vocab, tokenizer.vocabulary()), request.sampling);
  return {.text = added_text(tokenizer, std::move(ids), text)};
}

struct Source {
  const CommandLine& line;
  const Request& request;
  std::string place;  // of the checkpoint
};

Generated generate_from(Process& process, const Source& source, const Manifest& saved) {
  Recipe recipe = recipe_for(source.line, saved, source.place);
  resolve_for_machine(recipe,
                      {.cores = process.cores(),
                       .local_ranks = static_cast<int>(recipe.parallel.ranks()),
                       .bf16 = cpu_multiplies_bf16()},
                      recipe.model.vocab);
  const MeshShape shape = mesh_shape(recipe);
  SaveSession session(process.files, folder_of(source.place), 0, shape.ranks(),
                      shape.ranks() * static_cast<int>(recipe.parallel.threads));
  check(session.folder().folder_of(saved.step) == source.place, source.place,
        " is not named after its step: it should be ", session.folder().folder_of(saved.step));
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(recipe.data.tokenizer, process.files);
  expect_room(*tokenizer, recipe.model.vocab);
  Generated generated;
  run_thread_ranks(
      shape.ranks(), {.timeout_seconds = recipe.parallel.timeout},
      [&](Communicator& world) {
        Generated mine = generate(recipe, *tokenizer, session, saved.step, source.request, world);
        if (world.rank() == 0) generated = std::move(mine);
        world.barrier();
      },
      [&](int rank) { return rank_prefix(shape, rank); });
  return generated;
}

void tell(Process& process, const CommandLine& line, const Request& request,
          const std::string& place, std::int64_t step, const std::string& text) {
  if (line.options.contains("json"))
    process.out << join("{\"checkpoint\": ", json_string(place), ", \"step\": ", step,
                        ", \"prompt\": ", json_string(printable(request.prompt)),
                        ", \"text\": ", json_string(printable(text)), "}\n");
  else
    process.out << printable(request.prompt + text) << "\n";
}

}  // namespace

int generate_command(Process& process, const CommandLine& line) {
  if (line.names.size() != 1)
    throw UsageError(
        "generate: needs the folder of a run with checkpoints: trireme generate RUN_FOLDER "
        "[--prompt TEXT] [--tokens 200] [--temperature 0.8] [--top_k 40] [--seed 1] [--json]");
  if (process.under_launcher)
    throw UsageError("generate: runs in one process; start it without a launcher");
  const Request request = request_of(line);
  const std::vector<std::string> all = checkpoints_in(process.files, line.names[0]);
  std::string passed_over;
  for (auto place = all.rbegin(); place != all.rend(); ++place) {
    const std::vector<std::string> problems = glance_at_checkpoint(process.files, *place);
    Generated made{.damage = problems.empty() ? "" : problems[0]};
    Manifest saved;
    if (problems.empty()) {
      saved = read_manifest(process.files, *place);
      made = generate_from(process, {line, request, *place}, saved);
    }
    if (made.damage.empty()) {
      process.err << passed_over << std::flush;
      tell(process, line, request, *place, saved.step, made.text);
      return 0;
    }
    passed_over += "passed over: " + made.damage + "\n";
  }
  fail(line.names[0], ": no checkpoint is good:\n", passed_over);
}

}  // namespace trireme
