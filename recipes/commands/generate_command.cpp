// trireme generate FOLDER [--prompt TEXT] [--chat] [--tokens N] [--temperature T] [--top_k K]
// [--seed N]
// [--section.key=value ...] [--json]: text from the newest good checkpoint of a run, or from a
// Hugging Face model folder.
#include <chrono>
#include <cmath>
#include <optional>
#include <ostream>

#include "framework/base/error.h"
#include "framework/data/chat_prompt.h"
#include "recipes/cli/values.h"
#include "recipes/commands/opened_model.h"
#include "recipes/report/numbers.h"
#include "recipes/report/printable.h"
#include "recipes/serve/output_text.h"
#include "recipes/train/run_samples.h"
#include "recipes/train/sampler.h"

namespace trireme {

namespace {

struct Request {
  bool chat = false;  // the prompt is a user's message, and an answer is wanted
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
  request.chat = given("chat");
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

struct Generated {
  std::string text, place;
  std::int64_t step = 0;
  std::vector<std::int32_t> tokens;
  bool ended = false;
};

// Says a text as it comes, on the rank that has a voice.
class Voice {
 public:
  Voice(Process& process, const Request& request, const Tokenizer& tokenizer,
        const std::vector<std::int32_t>& ids, bool skip_special)
      : process_(process), text_(tokenizer, ids, skip_special, {}, false) {
    if (!request.chat) say(request.prompt);
  }
  void token(std::int32_t id) {
    if (tokens_++ == 0) begin_ = now();
    say(text_.push(id));
  }
  void finish() {
    say(text_.finish());
    process_.out << "\n" << std::flush;
    if (tokens_ > 1 && process_.terminal.live())
      process_.err << join(tokens_, " tokens, ",
                           fixed(static_cast<double>(tokens_ - 1) / (now() - begin_), 1),
                           " tokens/s after the first\n");
  }

 private:
  void say(const std::string& text) {
    if (!text.empty()) process_.out << printable(text) << std::flush;
  }
  static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  Process& process_;
  OutputText text_;
  std::int64_t tokens_ = 0;
  double begin_ = 0;
};

// `speaks`: says the text on the way.
Generated generate(Process& process, const OpenedModel& model, const Request& request,
                   bool speaks) {
  const Recipe& recipe = model.source.recipe;
  const Tokenizer& tokenizer = *model.source.tokenizer;
  Generated made{.place = model.source.place, .step = model.source.step};
  std::vector<std::int32_t> ids;
  if (request.chat) {
    ids = chat_prompt(tokenizer, request.prompt);
  } else {
    if (model.source.start) ids.push_back(*model.source.start);
    tokenizer.encode(request.prompt, ids);
  }
  const std::int64_t window = recipe.batch.sequence;
  if (recipe.model.family == "mlp")
    check(std::ssize(ids) >= window, "--prompt has ", ids.size(),
          " tokens; model.family = mlp sees ", window, " at once and needs that many");
  SamplingOptions sampling = request.sampling;
  sampling.ends = request.chat ? model.source.answer_ends : model.source.ends;
  const bool skip_special = request.chat || model.source.from_folder;
  std::optional<Voice> voice;
  if (speaks) {
    voice.emplace(process, request, tokenizer, ids, skip_special);
    sampling.told = [&](std::int32_t id) { voice->token(id); };
  }
  made.tokens = sample(model.engine, model.mesh, model.backend, ids, request.tokens, window,
                       std::min(recipe.model.vocab, tokenizer.vocabulary()), sampling);
  made.ended = std::ssize(made.tokens) < request.tokens;
  if (voice) voice->finish();
  made.text = added_text(tokenizer, std::move(ids), made.tokens, skip_special);
  return made;
}

void tell_json(Process& process, const Request& request, const Generated& made) {
  std::string tokens;
  for (const std::int32_t id : made.tokens) tokens += join(tokens.empty() ? "" : ", ", id);
  process.out << join("{\"checkpoint\": ", json_string(made.place), ", \"step\": ", made.step,
                      ", \"prompt\": ", json_string(printable(request.prompt)),
                      ", \"text\": ", json_string(printable(made.text)), ", \"tokens\": [", tokens,
                      "], \"ended\": ", made.ended ? "true" : "false", "}\n");
}

}  // namespace

int generate_command(Process& process, const CommandLine& line) {
  if (line.names.size() != 1)
    throw UsageError(
        "generate: needs the folder of a run with checkpoints, or a Hugging Face model folder: "
        "trireme generate FOLDER [--prompt TEXT] [--chat] [--tokens 200] [--temperature 0.8] "
        "[--top_k 40] "
        "[--seed 1] [--json]");
  const Request request = request_of(line);
  const bool json = line.options.contains("json");
  Generated made;
  open_model(process, line, line.names[0], [&](const ModelSource&) {
    return [&](const OpenedModel& model) {
      if (model.mesh.coord().data != 0 && model.source.recipe.zero.stage < 3) return;
      const bool first = model.mesh.world().rank() == 0;
      Generated mine = generate(process, model, request, first && !json);
      if (first) made = std::move(mine);
    };
  });
  if (json) tell_json(process, request, made);
  return 0;
}

}  // namespace trireme
