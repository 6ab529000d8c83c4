// trireme train RECIPE [--section.key=value ...] [--json]
#include <algorithm>
#include <ostream>

#include "framework/backend/backend.h"
#include "framework/base/error.h"
#include "framework/base/program.h"
#include "framework/data/package_text.h"
#include "framework/data/text_tokens.h"
#include "recipes/cli/recipe_text.h"
#include "recipes/commands/memory_refusal.h"
#include "recipes/commands/memory_text.h"
#include "recipes/commands/process.h"
#include "recipes/report/numbers.h"
#include "recipes/train/measured_peak.h"
#include "recipes/train/plan.h"
#include "recipes/train/trainer.h"

namespace trireme {

namespace {

struct OpenedData {
  std::shared_ptr<const TokenFile> tokens;
  std::string note;
};

// data.tokens, or data.text through the cache. In an MPI run only one process of a machine may call
// this at a time.
OpenedData open_data(Process& process, const Recipe& recipe, const Tokenizer& tokenizer) {
  if (!recipe.data.tokens.empty()) return {TokenFile::open(process.files, recipe.data.tokens), {}};
  const std::string cache = process.cache_folder();
  const std::string text = resolve_text(process.files, recipe.data.text, cache, run_program);
  const CachedTokens cached = cached_tokens(process.files, text, cache, tokenizer);
  return {TokenFile::open(process.files, cached.path, false), cached.note};
}

std::string opening_lines(const Recipe& recipe, const Machine& machine, const TokenDataset& data) {
  std::string text;
  for (const auto& [key, value] : differences_from_default(recipe))
    text += key + " = " + value + "\n";
  const EngineOptions options = engine_options(recipe);
  const std::int64_t parameters = logical_parameters(options.model);
  text += join("model: ", grouped(parameters), " parameters, ", options.model.layers + 2,
               " list entries, ", recipe.precision.compute, "\n");
  if (is_storage_only(recipe, machine))
    text += join("precision.compute = ", recipe.precision.compute,
                 " is stored in 16 bits and computed in f32 on this CPU: it saves memory, not "
                 "time\n");
  text += join("ranks: ", recipe.parallel.ranks(), " = data ", recipe.parallel.data, " x pipeline ",
               recipe.parallel.pipeline, " x tensor ", recipe.parallel.tensor, ", ",
               recipe.parallel.threads, " thread(s) each, by ", recipe.parallel.launch, "\n");
  text += join("step: ", recipe.batch.global, " samples x ", recipe.batch.sequence,
               " tokens = ", grouped(recipe.batch.global * recipe.batch.sequence), " tokens, ",
               recipe.micro_batches(), " micro-batch(es) a data rank\n");
  const double epoch = static_cast<double>(recipe.train.steps * recipe.batch.global) /
                       static_cast<double>(data.train().size());
  text += join("data: ", grouped(data.tokens().count()), " tokens; ", grouped(data.train().size()),
               " training samples (", significant(epoch, 3), " epochs), ",
               data.validation() ? grouped(data.validation()->size()) : "0", " held out");
  return text;
}

// The machine may lend what it has not got, in swap and by promises: it only warns.
std::string memory_lines(const MemoryOutlook& memory, const Recipe& recipe) {
  std::string text = verdict(memory) + "\n";
  if (!memory.fits() && recipe.device.memory == 0)
    text +=
        "warning: the run goes on, but may swap or be ended by the system when memory runs "
        "out; `trireme memory` shows what would fit\n";
  return text + memory_kinds_text(memory, recipe);
}

// As a shell reads it back.
std::string shell_word(const std::string& text) {
  const bool plain = text.find_first_of(" \t\"'\\$`*?[]{}()<>|&;!#~") == std::string::npos;
  if (plain && !text.empty()) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

// With flags, the resolved recipe is what was trained.
std::string next_steps(const CommandLine& line, const Recipe& recipe) {
  const std::string folder = recipe.train.folder;
  const bool as_in_file = line.flags.empty() && !line.names.empty();
  const std::string file = as_in_file ? line.names[0] : folder + "/recipe.cfg";
  std::string train = "./trireme train " + shell_word(file);
  if (recipe.parallel.launch == "mpi")
    train = join("mpirun --bind-to none --oversubscribe -n ", recipe.parallel.ranks(), " ", train);
  const std::string text = recipe.data.tokens.empty() ? "" : " --data.tokens=";
  const std::pair<std::string, std::string> steps[] = {
      {"cat " + shell_word(folder + "/report.json"), "memory and traffic of every rank"},
      {"tensorboard --logdir " + shell_word(folder), "curves"},
      {join(train, " --train.steps=", recipe.train.steps * 4), "longer"},
      {join(train, text, " --data.text=FILE"), "on your own text"},
      {"./trireme train --help", "every key of a recipe"}};
  std::size_t widest = 0;
  for (const auto& [command, purpose] : steps) widest = std::max(widest, command.size());
  std::string result = "Next steps\n";
  for (const auto& [command, purpose] : steps)
    result +=
        join("  ", command, std::string(widest + 2 - command.size(), ' '), "# ", purpose, "\n");
  return result;
}

void tell_end(Process& process, const CommandLine& line, const Recipe& recipe,
              const MemoryOutlook& memory, const TrainingEnd& end) {
  write_report(process.files, recipe.train.folder + "/report.json", end.report);
  if (line.options.contains("json")) {
    process.out << report_json(end.report) << std::flush;
    return;
  }
  process.out << memory_kinds_text(memory, recipe, &end.report) << "\n"
              << report_text(end.report) << "\n";
  if (!end.sample.empty())
    process.out << "Sample (it begins with "
                << (recipe.data.validation > 0 ? "held-out" : "training") << " text)\n"
                << end.sample << "\n\n";
  if (end.stopped) process.out << "Stopped by a signal after step " << end.report.steps << ".\n";
  process.out << next_steps(line, recipe) << std::flush;
}

void run_threads(Process& process, const CommandLine& line, const Recipe& recipe,
                 const RunInputs& inputs, const MemoryOutlook& memory) {
  TrainingEnd end;
  const MeshShape mesh = mesh_shape(recipe);
  run_thread_ranks(
      mesh.ranks(), {.timeout_seconds = recipe.parallel.timeout},
      [&](Communicator& world) {
        Trainer trainer(inputs, world);
        TrainingEnd mine = trainer.run();
        if (world.rank() == 0) end = std::move(mine);
        world.barrier();
      },
      [&](int rank) { return rank_prefix(mesh, rank); });
  inputs.voice->finish();
  tell_end(process, line, recipe, memory, end);
}

void run_mpi(Process& process, const CommandLine& line, const Recipe& recipe,
             const RunInputs& inputs, const MemoryOutlook& memory, Communicator& world) {
  try {
    Trainer trainer(inputs, world);
    const TrainingEnd end = trainer.run();
    world.barrier();
    if (!inputs.voice) return;
    inputs.voice->finish();
    tell_end(process, line, recipe, memory, end);
  } catch (const UsageError& error) {
    throw UsageError(rank_prefix(mesh_shape(recipe), world.rank()) + error.what());
  } catch (const std::exception& error) {
    throw Error(rank_prefix(mesh_shape(recipe), world.rank()) + error.what());
  }
}

// One process after the other, so that the first one makes the cache and the others find it.
template <typename Work>
void in_turn(Communicator* world, const Work& work) {
  if (!world) return work();
  for (int rank = 0; rank < world->size(); ++rank) {
    if (rank == world->rank()) work();
    world->barrier();
  }
}

}  // namespace

int train_command(Process& process, const CommandLine& line) {
  Recipe recipe = recipe_of(process, line, true);
  std::unique_ptr<Communicator> world;
  Machine machine{.cores = process.cores(),
                  .local_ranks = static_cast<int>(recipe.parallel.ranks()),
                  .bf16 = cpu_multiplies_bf16()};
  if (recipe.parallel.launch == "mpi") {
    MpiSession& mpi = process.mpi();
    world = mpi.world({.timeout_seconds = recipe.parallel.timeout});
    machine.local_ranks = mpi.local_ranks();
    if (world->size() != recipe.parallel.ranks())
      throw UsageError(
          join("parallel.data x parallel.pipeline x parallel.tensor = ", recipe.parallel.data,
               " x ", recipe.parallel.pipeline, " x ", recipe.parallel.tensor, " = ",
               recipe.parallel.ranks(), " ranks, but the launcher started ", world->size()));
  }
  const bool first = !world || world->rank() == 0;
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(recipe.data.tokenizer);
  OpenedData opened;
  in_turn(world.get(), [&] { opened = open_data(process, recipe, *tokenizer); });
  resolve_for_machine(recipe, machine, opened.tokens->header().vocabulary);
  const TokenDataset data(opened.tokens, sample_options(recipe));
  const MemoryOutlook memory =
      memory_outlook(recipe, memory_limit(process.files, recipe.device.memory, machine.local_ranks),
                     Detail::kBytes);
  if (const std::string refusal = memory_refusal(memory, recipe); !refusal.empty())
    throw UsageError(refusal);
  const std::string misfit = memory_misfit(memory, recipe);

  std::unique_ptr<RunVoice> voice;
  double peak = 0;
  if (first) {
    voice = std::make_unique<RunVoice>(process.files, recipe, process.err, process.terminal);
    voice->say(opening_lines(recipe, machine, data));
    voice->say(memory_lines(memory, recipe));
    if (!opened.note.empty()) voice->say(opened.note);
    if (recipe.device.kind == "cpu")
      peak = measured_peak(
                 recipe.precision.compute == "bf16" && machine.bf16 ? DType::kBF16 : DType::kF32,
                 machine.cores) *
             static_cast<double>(recipe.parallel.ranks()) / machine.local_ranks;
  }
  if (!misfit.empty()) throw Error(misfit);  // told after the table
  const RunInputs inputs{.recipe = recipe,
                         .data = data,
                         .tokenizer = *tokenizer,
                         .files = process.files,
                         .signals = process.signals,
                         .voice = voice.get(),
                         .measured_peak = peak};
  world ? run_mpi(process, line, recipe, inputs, memory, *world)
        : run_threads(process, line, recipe, inputs, memory);
  return 0;
}

}  // namespace trireme
