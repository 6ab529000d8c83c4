// trireme evaluate FOLDER --data.text=FILE|--data.tokens=FILE [--stride N]
// trireme evaluate FOLDER --task lambada|choice FILE.jsonl
// [--section.key=value ...] [--json]: how well a run's newest checkpoint, or a Hugging Face model,
// foresees a text, or answers questions. Under mpirun the first process reads and tells.
#include <algorithm>
#include <cmath>
#include <ostream>

#include "framework/base/error.h"
#include "recipes/cli/values.h"
#include "recipes/commands/evaluate.h"
#include "recipes/commands/score_batches.h"
#include "recipes/report/numbers.h"
#include "recipes/report/printable.h"

namespace trireme {

namespace {

constexpr std::size_t kMostTold = 10;

struct Place {
  std::string path;
  std::int64_t step = 0;
};

std::string place_json(const Place& place) {
  return join("{\"checkpoint\": ", json_string(place.path), ", \"step\": ", place.step);
}

std::string place_text(const Place& place) {
  return place.step == 0 ? place.path : join(place.path, " (step ", place.step, ")");
}

std::string text_json(const Place& place, const std::string& text, const TextResult& r) {
  const double loss = r.nats / static_cast<double>(r.scored);
  std::string json =
      join(place_json(place), ", \"text\": ", json_string(text),
           r.documents > 0 ? join(", \"documents\": ", r.documents) : "",
           ", \"window\": ", r.window, ", \"stride\": ", r.stride, ", \"windows\": ", r.windows,
           ", \"tokens\": ", r.tokens, ", \"tokens_scored\": ", r.scored,
           ", \"loss\": ", json_number(loss), ", \"perplexity\": ", json_number(std::exp(loss)));
  if (r.words)
    json += join(", \"words\": ", *r.words, ", \"word_perplexity\": ",
                 json_number(std::exp(r.nats / static_cast<double>(*r.words))));
  return json + join(", \"seconds\": ", json_number(r.seconds), ", \"tokens_per_second\": ",
                     json_number(static_cast<double>(r.scored) / r.seconds), "}\n");
}

std::string text_table(const Place& place, const std::string& text, const TextResult& r) {
  const double loss = r.nats / static_cast<double>(r.scored);
  std::string told =
      join(place_text(place), " on ", text, r.about.empty() ? "" : " (" + printable(r.about) + ")",
           "\n  loss        ", fixed(loss, 4), " nats a token\n  perplexity  ",
           fixed(std::exp(loss), 4), " a token");
  if (r.words)
    told += join(", ", short_number(std::exp(r.nats / static_cast<double>(*r.words))), " a word (",
                 grouped(*r.words), " words)");
  return told + join("\n  scored      ", grouped(r.scored), " of ", grouped(r.tokens),
                     " tokens, in ", grouped(r.windows),
                     r.windows == 1 ? " window of " : " windows of ", r.window, ", stride ",
                     r.stride, "\n  speed       ",
                     short_number(static_cast<double>(r.scored) / r.seconds), " tokens/s\n");
}

double share(std::int64_t some, std::int64_t all) {
  return static_cast<double>(some) / static_cast<double>(all);
}

std::string task_json(const Place& place, const std::string& file, Task task, const TaskResult& r) {
  std::string json =
      join(place_json(place), ", \"task\": ", task == Task::kChoice ? "\"choice\"" : "\"lambada\"",
           ", \"file\": ", json_string(file), ", \"items\": ", r.items, ", \"scored\": ", r.scored,
           ", \"too_long\": ", r.too_long.size(), ", \"right\": ", r.right,
           ", \"accuracy\": ", json_number(share(r.right, r.scored)));
  if (task == Task::kChoice)
    json += join(", \"right_by_length\": ", r.right_by_length,
                 ", \"accuracy_by_length\": ", json_number(share(r.right_by_length, r.scored)));
  const double nats = r.nats / static_cast<double>(r.scored);
  return json + join(task == Task::kChoice ? ", \"answer_loss\": " : ", \"word_perplexity\": ",
                     json_number(task == Task::kChoice ? nats : std::exp(nats)),
                     ", \"seconds\": ", json_number(r.seconds), "}\n");
}

std::string task_table(const Place& place, const std::string& file, Task task,
                       const TaskResult& r) {
  const auto percent = [&](std::int64_t right) {
    return join(fixed(100 * share(right, r.scored), 2), "% (", grouped(right), " of ",
                grouped(r.scored), ")");
  };
  std::string told = place_text(place) + " on " + file + "\n";
  if (task == Task::kChoice)
    told += join("  accuracy            ", percent(r.right), "\n  by bytes of answer  ",
                 percent(r.right_by_length), "\n");
  else
    told += join("  last word right  ", percent(r.right), "\n  its perplexity   ",
                 short_number(std::exp(r.nats / static_cast<double>(r.scored))), "\n");
  if (!r.too_long.empty())
    told += join("  not scored: ", grouped(std::ssize(r.too_long)), " of ", grouped(r.items),
                 " items, too long\n");
  return told;
}

void tell_too_long(Process& process, const TaskResult& result) {
  for (std::size_t i = 0; i < std::min(kMostTold, result.too_long.size()); ++i)
    process.err << result.too_long[i] << "\n";
  if (result.too_long.size() > kMostTold)
    process.err << "and " << result.too_long.size() - kMostTold << " more items are too long\n";
}

// The one of the two; empty without.
std::string given_text(const CommandLine& line) {
  std::string text;
  for (const Flag& flag : line.flags)
    if ((flag.name == "data.text" || flag.name == "data.tokens") && flag.value) text = *flag.value;
  return text;
}

bool gives(const CommandLine& line, std::string_view key) {
  return std::any_of(line.flags.begin(), line.flags.end(),
                     [&](const Flag& flag) { return flag.name == key; });
}

std::int64_t stride_of(const CommandLine& line) {
  const auto given = line.options.find("stride");
  if (given == line.options.end()) return 0;
  const auto stride = parse_count(given->second);
  if (!stride || *stride < 1)
    throw UsageError(
        join("--stride ", given->second, ": a whole number from 1 to batch.sequence is expected"));
  return *stride;
}

Task task_named(const std::string& name) {
  if (name == "lambada") return Task::kLambada;
  if (name == "choice") return Task::kChoice;
  throw UsageError(join("--task ", name, ": lambada or choice is expected"));
}

void expect_decoder(const ModelSource& source) {
  if (source.recipe.model.family == "mlp")
    throw UsageError(
        "evaluate: model.family = mlp says only what follows a whole window; the validation loss "
        "of its run is in metrics.jsonl");
}

[[noreturn]] void usage() {
  throw UsageError(
      "evaluate: needs a model, the folder of a run with checkpoints or a Hugging Face one, and "
      "what to measure it on:\n"
      "  trireme evaluate FOLDER --data.text=FILE|--data.tokens=FILE [--stride N] [--json]\n"
      "  trireme evaluate FOLDER --task lambada|choice FILE.jsonl [--json]");
}

// What `prepare` makes leads all ranks. Only the process of rank 0, which tells the result, calls
// it.
template <typename Prepare>
Place measure(Process& process, const CommandLine& line, const Prepare& prepare) {
  Place place;
  open_model(process, line, line.names[0], [&](const ModelSource& source) -> ModelWork {
    expect_decoder(source);
    place = {source.place, source.step};
    const ModelWork lead = leads(process) ? prepare(source) : ModelWork();
    return [&process, lead](const OpenedModel& model) {
      model.mesh.world().rank() == 0 ? lead(model) : follow_scores(process, model);
    };
  });
  return place;
}

void evaluate_text(Process& process, const CommandLine& line) {
  const TextOptions options{.stride = stride_of(line), .loss_on = gives(line, "data.loss_on")};
  TextResult result;
  const Place place = measure(process, line, [&](const ModelSource& source) {
    return text_work(process, source, options, result);
  });
  if (!leads(process)) return;
  process.out << (line.options.contains("json") ? text_json(place, given_text(line), result)
                                                : text_table(place, given_text(line), result));
}

void evaluate_task(Process& process, const CommandLine& line) {
  const Task task = task_named(line.options.at("task"));
  TaskResult result;
  const Place place = measure(process, line, [&](const ModelSource& source) {
    return task_work(process, source, task, line.names[1], result);
  });
  if (!leads(process)) return;
  tell_too_long(process, result);
  process.out << (line.options.contains("json") ? task_json(place, line.names[1], task, result)
                                                : task_table(place, line.names[1], task, result));
}

}  // namespace

int evaluate_command(Process& process, const CommandLine& line) {
  const bool on_text = !given_text(line).empty(), on_task = line.options.contains("task");
  if (on_text == on_task || line.names.size() != (on_task ? 2 : 1)) usage();
  if (on_task && line.options.contains("stride"))
    throw UsageError("--stride is for a text; items of a task are scored whole");
  on_task ? evaluate_task(process, line) : evaluate_text(process, line);
  return 0;
}

}  // namespace trireme
