// trireme train RECIPE [--section.key=value ...] [--resume | --restart] [--json]
#include <algorithm>
#include <ostream>

#include "framework/backend/backend.h"
#include "framework/base/error.h"
#include "recipes/cli/recipe_text.h"
#include "recipes/commands/export_command.h"
#include "recipes/commands/memory_refusal.h"
#include "recipes/commands/memory_text.h"
#include "recipes/commands/process.h"
#include "recipes/commands/tokenizing.h"
#include "recipes/commands/trained_marks.h"
#include "recipes/report/numbers.h"
#include "recipes/report/printable.h"
#include "recipes/train/last_failure.h"
#include "recipes/train/measured_peak.h"
#include "recipes/train/plan.h"
#include "recipes/train/trainer.h"

namespace trireme {

namespace {

// Of data that is not learned whole.
std::string data_lines(const TokenDataset& data, const Tokenizer& tokenizer) {
  const TokenHeader& header = data.tokens().header();
  if (header.about.empty()) return {};
  std::string text = "\ndata: " + printable(header.about);
  if (!tokenizer.settings().eos) text += "; the tokenizer has no end-of-text token between them";
  if (!header.masked) return text;
  return text + join("; ", grouped(header.trained), " of ", grouped(header.count),
                     " tokens are learned, as here [[...]]:\n",
                     marked_sample(data, first_trained_sample(data), tokenizer, {}));
}

void expect_trained(const TokenFile& tokens, const Recipe& recipe) {
  if (tokens.header().about.empty() || tokens.header().trained > 0) return;
  throw UsageError(
      join("data: no token of ", tokens.header().about, " is learned; ",
           "trireme data show tells what they look like",
           recipe.data.tokens.empty() ? ", data.loss_on = all learns every token" : ""));
}

void expect_documents(const TokenDataset& data, const Recipe& recipe) {
  if (!recipe.data.reset_attention_mask || data.train().knows_documents()) return;
  const bool plain = data.tokens().header().about.empty();
  throw UsageError(join(
      "data.reset_attention_mask = true: where documents begin in ", data.tokens().path(),
      " is not known; ",
      plain ? "plain text needs a tokenizer with an end-of-text token, which ends each document"
            : "it is of an older version, make it again with trireme tokenize"));
}

std::string opening_lines(const Recipe& recipe, const Machine& machine, const TokenDataset& data,
                          const Tokenizer& tokenizer) {
  std::string text;
  for (const auto& [key, value] : differences_from_default(recipe))
    text += key + " = " + value + "\n";
  const EngineOptions options = engine_options(recipe);
  const std::int64_t parameters = logical_parameters(options.model);
  text += join("model: ", grouped(parameters), " parameters, ", options.model.layers + 2,
               " list entries, ", recipe.precision.compute, "\n");
  if (const auto& frozen = options.stage.plan.frozen)
    text += join("trained: ",
                 grouped(logical_parameters(
                     options.model, [&](const std::string& name) { return !frozen(name); })),
                 " of them; the others are frozen\n");
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
  return text + data_lines(data, tokenizer);
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
  const bool saved = recipe.train.checkpoint_every > 0;
  const std::string file = as_in_file ? line.names[0] : folder + "/recipe.cfg";
  std::string train = "./trireme train " + shell_word(file);
  if (recipe.parallel.launch == "mpi")
    train = join("mpirun --bind-to none --oversubscribe -n ", recipe.parallel.ranks(), " ", train);
  const std::string text = recipe.data.tokens.empty() ? "" : " --data.tokens=";
  std::vector<std::pair<std::string, std::string>> steps = {
      {"cat " + shell_word(folder + "/report.json"), "memory and traffic of every rank"},
      {"tensorboard --logdir " + shell_word(folder), "curves"},
      {join(train, saved ? " --resume" : " --train.folder=" + shell_word(folder + "-longer"),
            " --train.steps=", recipe.train.steps * 4),
       saved ? "goes on, four times as long" : "longer"},
      {join(train, text, " --train.folder=", shell_word(folder + "-own"), " --data.text=FILE"),
       "on your own text"},
      {"./trireme train --help", "every key of a recipe"}};
  if (recipe.train.exports != "none") {
    // A folder of adapters alone is no model; the run's checkpoint holds the whole one.
    const std::string model = recipe.lora.rank > 0 ? folder : export_folder(folder);
    steps.insert(steps.begin(), {"./trireme generate " + shell_word(model) + " --prompt TEXT",
                                 "what it says now; --chat asks as a user"});
    if (recipe.lora.rank > 0)
      steps.insert(steps.begin() + 1, {"./trireme checkpoint merge " + shell_word(folder) + " " +
                                           shell_word(folder + "-merged"),
                                       "adapters and model in one folder"});
  } else if (saved) {
    steps.insert(steps.begin(), {"./trireme generate " + shell_word(folder) + " --prompt TEXT",
                                 "what it says now"});
    if (recipe.model.family != "mlp")
      steps.insert(steps.begin() + 1, {"./trireme serve " + shell_word(folder),
                                       "a page to talk to it, and OpenAI's API"});
  }
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
  const bool exports = recipe.train.exports != "none";
  if (end.complete) {
    if (exports && !process.files.exists(export_folder(recipe.train.folder)))
      export_run(process, recipe);
    const std::int64_t wanted = recipe.train.steps;
    process.out << join("The run in ", recipe.train.folder, " has ",
                        end.steps > wanted
                            ? join(end.steps, " steps, more than train.steps = ", wanted)
                            : join("its ", wanted, " steps already"),
                        "; --train.steps=", end.steps * 2, " would go on with it.\n")
                << std::flush;
    return;
  }
  write_report(process.files, recipe.train.folder + "/report.json", end.report);
  if (exports && !end.stopped) export_run(process, recipe);
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
  if (end.stopped)
    process.out << "Stopped by a signal after step " << end.report.steps << "."
                << (recipe.train.checkpoint_every > 0 ? " --resume goes on from there.\n" : "\n");
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
  if (inputs.voice) inputs.voice->finish();
  tell_end(process, line, recipe, memory, end);
}

void run_mpi(Process& process, const CommandLine& line, const Recipe& recipe,
             const RunInputs& inputs, const MemoryOutlook& memory, Communicator& world) {
  try {
    Trainer trainer(inputs, world);
    const TrainingEnd end = trainer.run();
    world.barrier();
    if (world.rank() != 0) return;
    if (inputs.voice) inputs.voice->finish();
    tell_end(process, line, recipe, memory, end);
  } catch (const UsageError& error) {
    throw UsageError(rank_prefix(mesh_shape(recipe), world.rank()) + error.what());
  } catch (const std::exception& error) {
    throw Error(rank_prefix(mesh_shape(recipe), world.rank()) + reason_of(error));
  }
}

// Keys of models that are only run.
void expect_training_keys(const Recipe& r) {
  if (r.inference.weights != "full")
    throw UsageError(join("inference.weights = ", r.inference.weights,
                          ": quantized weights cannot be trained; use full, and give the key to "
                          "generate, chat, serve, bench or evaluate"));
  if (r.offload.kv_cache != "none")
    throw UsageError(join("offload.kv_cache = ", r.offload.kv_cache,
                          ": training has no cache of keys and values; use none"));
  if (r.offload.slots > 0 || r.offload.resident != "auto")
    throw UsageError(
        "offload.slots and offload.resident are of weights that are streamed by generate, serve, "
        "bench and evaluate; use auto for training");
}

// The short flags, which decide over a recipe that says otherwise.
CommandLine with_short_flags(CommandLine line) {
  const bool resume = line.options.contains("resume"), restart = line.options.contains("restart");
  if (resume || restart) {
    line.flags.push_back({"train.resume", resume ? "true" : "false"});
    line.flags.push_back({"train.restart", restart ? "true" : "false"});
  }
  return line;
}

// Runs `train`; what ends it is remembered in the folder, and told apart if it ended the last
// start, too.
template <typename Train>
void remembering_failures(Process& process, const Recipe& recipe,
                          const std::atomic<std::int64_t>& attempt, const Train& train) {
  const std::string& folder = recipe.train.folder;
  try {
    train();
  } catch (const UsageError&) {
    throw;
  } catch (const std::exception& error) {
    const std::string reason = reason_of(error);
    const std::int64_t step = attempt.load();
    const std::int64_t times = note_failure(process.files, folder, step, reason);
    if (times < 2) throw;
    throw RepeatedFailure(repeated_text(reason, step, times));
  }
  const std::string failure = path_join(folder, kFailureName);
  if (process.files.exists(failure)) process.files.remove(failure);
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

int train_command(Process& process, const CommandLine& given) {
  const CommandLine line = with_short_flags(given);
  Recipe recipe = recipe_of(process, line, true);
  expect_training_keys(recipe);
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
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(recipe.data.tokenizer, process.files);
  if (!recipe.model.from.empty()) expect_room(*tokenizer, recipe);
  OpenedData opened;
  in_turn(world.get(), [&] { opened = open_data(process, recipe, *tokenizer); });
  expect_trained(*opened.tokens, recipe);
  resolve_for_machine(recipe, machine, opened.tokens->header().vocabulary);
  SampleOptions cut = sample_options(recipe);
  cut.end_of_text = tokenizer->settings().eos;
  const TokenDataset data(opened.tokens, cut);
  expect_documents(data, recipe);
  const SamplePlan samples = sample_plan(process.files, recipe, data, *tokenizer);
  const MemoryOutlook memory =
      memory_outlook(recipe, memory_limit(process.files, recipe.device.memory, machine.local_ranks),
                     Detail::kBytes);
  if (const std::string refusal = memory_refusal(memory, recipe); !refusal.empty())
    throw UsageError(refusal);
  const std::string misfit = memory_misfit(memory, recipe);

  RunStart start;
  std::unique_ptr<RunVoice> voice;
  double peak = 0;
  const std::string& token_hash = opened.tokens->header().token_hash;
  std::atomic<std::int64_t> attempt{0};
  try {
    if (first) start = begin_run(process.files, recipe, token_hash);
  } catch (const NoGoodCheckpoint&) {  // of this folder, which no other run has
    remembering_failures(process, recipe, attempt, [] { throw; });
  }
  attempt = start.step;
  if (first && !start.complete) {
    voice = std::make_unique<RunVoice>(process.files, recipe, process.err, process.terminal);
    voice->say(opening_lines(recipe, machine, data, *tokenizer));
    voice->say(memory_lines(memory, recipe));
    if (!opened.note.empty()) voice->say(opened.note);
    for (const std::string& note : start.notes) voice->say(note);
    if (const std::string note = background_note(recipe); !note.empty()) voice->say(note);
    if (recipe.device.kind == "cpu")
      peak = measured_peak(
                 recipe.precision.compute == "bf16" && machine.bf16 ? DType::kBF16 : DType::kF32,
                 machine.cores) *
             static_cast<double>(recipe.parallel.ranks()) / machine.local_ranks;
  }
  SaveSession session(
      process.files, checkpoints_folder(recipe.train.folder), world ? world->rank() : 0,
      world ? 1 : static_cast<int>(recipe.parallel.ranks()),
      static_cast<int>(recipe.parallel.threads * (world ? 1 : recipe.parallel.ranks())));
  const RunInputs inputs{.recipe = recipe,
                         .data = data,
                         .tokenizer = *tokenizer,
                         .files = process.files,
                         .signals = process.signals,
                         .voice = voice.get(),
                         .measured_peak = peak,
                         .checkpoints = {.session = &session,
                                         .requests = &process.save_requests,
                                         .start = first ? &start : nullptr,
                                         .token_hash = token_hash},
                         .attempt = &attempt,
                         .samples = samples};
  const auto train = [&] {
    check(misfit.empty(), misfit);  // told after the table
    world ? run_mpi(process, line, recipe, inputs, memory, *world)
          : run_threads(process, line, recipe, inputs, memory);
  };
  first ? remembering_failures(process, recipe, attempt, train) : train();
  return 0;
}

}  // namespace trireme
