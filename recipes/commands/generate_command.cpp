// trireme generate FOLDER [--prompt TEXT | --prompt-file FILE | -] [--chat] [--tokens N]
// [--temperature T] ... [--json], or --input FILE.jsonl [--output FILE.jsonl]: text from the newest
// good checkpoint of a run, or from a Hugging Face model folder. docs/chat.md.
#include "framework/base/error.h"
#include "recipes/cli/values.h"
#include "recipes/commands/generate.h"
#include "recipes/commands/standard_input.h"

namespace trireme {

namespace {

constexpr const char* kUsage =
    "generate: needs the folder of a run with checkpoints, or a Hugging Face model folder: "
    "trireme generate FOLDER [--prompt TEXT | --prompt-file FILE | -] [--chat] [--tokens 200] "
    "[--temperature 0.8] [--top_k 40] [--top_p 1] [--seed 1] [--stop TEXT] [--json], or "
    "--input FILE.jsonl [--output FILE.jsonl] for many; docs/chat.md has all options";

void only_with(const CommandLine& line, const std::vector<std::string>& names, bool input) {
  for (const std::string& name : names)
    if (line.options.contains(name) && !input)
      throw UsageError(join("--", name, ": only with --input FILE.jsonl"));
}

void read_prompt(Process& process, const CommandLine& line, GenerateWishes& wishes) {
  const bool text = line.options.contains("prompt"), file = line.options.contains("prompt-file"),
             dash = line.names.size() == 2;
  if (text + file + dash > 1)
    throw UsageError(
        "generate: one prompt: --prompt TEXT, --prompt-file FILE, or - for standard "
        "input");
  if (text) wishes.prompt = line.options.at("prompt");
  if (text && wishes.prompt.empty()) throw UsageError("--prompt is empty; give it some text");
  if (!file && !dash) return;
  const std::string path = dash ? "-" : line.options.at("prompt-file");
  if (path == "-" && process.under_launcher)
    throw UsageError(
        "generate: a launcher gives standard input to one process only; give --prompt-file FILE");
  if (path != "-" && process.files.status(path).kind != FileKind::kFile)
    throw UsageError(join("--prompt-file: there is no file ", path));
  wishes.prompt = path == "-" ? read_standard_input() : read_whole(process.files, path);
  if (wishes.prompt.empty())
    throw UsageError(join(path == "-" ? "standard input" : path, " is empty: there is no prompt"));
}

void read_lines_options(const CommandLine& line, GenerateWishes& wishes) {
  wishes.input = line.options.at("input");
  for (const char* name : {"prompt", "prompt-file", "chat", "json"})
    if (line.options.contains(name))
      throw UsageError(join("--", name,
                            ": the lines of --input say what is asked; \"prompt\" "
                            "is continued, \"messages\" are answered, both as JSON"));
  if (line.names.size() == 2) throw UsageError("generate: - is --input - where lines are read");
  if (line.options.contains("output")) wishes.output = line.options.at("output");
  wishes.skip_bad = line.options.contains("skip-bad");
  wishes.resume = line.options.contains("resume");
  wishes.overwrite = line.options.contains("overwrite");
  if (wishes.resume && wishes.overwrite)
    throw UsageError("--resume goes on, --overwrite begins anew: give one of them");
  if (wishes.output == "-" && (wishes.resume || wishes.overwrite))
    throw UsageError("--resume and --overwrite need --output FILE");
  if (const auto given = line.options.find("max-num-seqs"); given != line.options.end()) {
    const auto value = parse_count(given->second);
    if (!value || *value < 1 || *value > 1024)
      throw UsageError(
          join("--max-num-seqs = ", given->second, ": expected a whole number from 1 to 1024"));
    wishes.sequences = *value;
  }
}

}  // namespace

GenerateWishes generate_wishes(Process& process, const CommandLine& line) {
  if (line.names.empty() || line.names.size() > 2 ||
      (line.names.size() == 2 && line.names[1] != "-"))
    throw UsageError(kUsage);
  GenerateWishes wishes{.folder = line.names[0]};
  for (const std::string& name : setting_names()) {
    const auto given = line.options.find(name);
    if (given == line.options.end()) continue;
    if (name == "stop" && given->second.empty()) throw UsageError("--stop is empty");
    if (const std::string wrong = set_answer(wishes.settings, name, given->second); !wrong.empty())
      throw UsageError("--" + wrong);
  }
  if (const auto given = line.options.find("kv-cache"); given != line.options.end()) {
    wishes.kv_bytes = parse_size(given->second).value_or(0);
    if (wishes.kv_bytes < 1)
      throw UsageError(join("--kv-cache = ", given->second, ": expected a size, as 1GiB"));
  }
  const bool lines = line.options.contains("input");
  only_with(line, {"output", "skip-bad", "resume", "overwrite", "max-num-seqs"}, lines);
  if (lines) {
    read_lines_options(line, wishes);
    return wishes;
  }
  wishes.chat = line.options.contains("chat");
  wishes.json = line.options.contains("json");
  read_prompt(process, line, wishes);
  return wishes;
}

int generate_command(Process& process, const CommandLine& line) {
  const GenerateWishes wishes = generate_wishes(process, line);
  return wishes.input.empty() ? generate_text(process, line, wishes)
                              : generate_lines(process, line, wishes);
}

}  // namespace trireme
