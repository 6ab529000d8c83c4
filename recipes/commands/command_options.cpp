#include "recipes/commands/command_options.h"

#include <algorithm>
#include <array>

#include "framework/base/error.h"
#include "recipes/cli/help.h"
#include "recipes/cli/keys.h"
#include "recipes/cli/nearest.h"

namespace trireme {

namespace {

Option valued(std::string_view name, std::string_view value, std::string_view help,
              std::string_view also = {}) {
  return {.name = name, .takes_value = true, .value = value, .help = help, .also = also};
}
Option plain(std::string_view name, std::string_view help) {
  return {.name = name, .takes_value = false, .value = {}, .help = help};
}

Option listed(std::string_view name, std::string_view also, std::string_view help) {
  Option option = valued(name, "N,...", help, also);
  option.list = true;
  return option;
}

std::vector<Option> drawing(std::string_view tokens) {
  return {
      valued("temperature", "T", "0: always the likeliest token [the folder's, or 0.8]"),
      valued("top_k", "K", "of the likeliest K tokens; 0: of all [the folder's, or 40]"),
      valued("top_p", "P",
             "of the likeliest tokens with this sum of probability [the folder's, or 1]"),
      valued("min_p", "P",
             "of tokens at least so likely, as part of the likeliest one [the folder's, or 0]"),
      valued("repetition_penalty", "R", "of tokens in prompt and answer [the folder's, or 1]"),
      valued("presence_penalty", "R", "of tokens in the answer, -2 to 2 [0]"),
      valued("frequency_penalty", "R", "of tokens in the answer, each time, -2 to 2 [0]"),
      valued("seed", "N", "the same seed draws the same [1]"),
      valued("tokens", "N", tokens),
      valued("stop", "TEXT", "ends the answer, and is cut off it; the last one given counts"),
  };
}

std::vector<Option> of_generate() {
  std::vector<Option> all{
      valued("prompt", "TEXT", "what goes on"),
      valued("prompt-file", "FILE", "the same from a file; - instead: from standard input"),
      plain("chat", "the prompt is a user's message, and is answered"),
  };
  for (const Option& option : drawing("at most so many [200]")) all.push_back(option);
  for (const Option& option : {
           valued("input", "FILE.jsonl", "many: a line has \"prompt\" or \"messages\"; -: stdin"),
           valued("output", "FILE.jsonl", "where the answers go [standard output]"),
           valued("max-num-seqs", "N", "lines answered at a time [32]"),
           plain("skip-bad", "bad lines are passed over, and counted"),
           plain("resume", "goes on behind the last whole answer of OUTPUT"),
           plain("overwrite", "begins OUTPUT anew"),
           valued("kv-cache", "SIZE", "most memory of keys and values on each rank [1GiB]"),
       })
    all.push_back(option);
  return all;
}

std::vector<Option> of_chat() {
  std::vector<Option> all{
      valued("system", "TEXT", "the system message"),
      valued("overflow", "error|slide",
             "what a full context does: end the answer, or forget the "
             "oldest exchanges [error]"),
  };
  for (const Option& option : drawing("at most so many an answer [what the context leaves]"))
    all.push_back(option);
  all.push_back(valued("max-model-len", "N", "most tokens of the conversation [the model's]"));
  all.push_back(valued("kv-cache", "SIZE", "most memory of keys and values on each rank [1GiB]"));
  all.push_back(plain("no-history", "what is typed is neither kept nor read"));
  return all;
}

std::vector<Option> of_serve() {
  return {
      valued("host", "ADDRESS", "an address of this machine to listen at [127.0.0.1]"),
      valued("port", "N", "0: any that is free [8000]"),
      valued("api-key-file", "FILE", "keys of at least 16 characters, one a line [none is needed]"),
      valued("api-key", "KEY", "one key, which other users of the machine can read"),
      plain("no-key", "serves without a key at an address that is not loopback"),
      valued("allow-host", "NAME", "one more name by which it may be called; *: any"),
      valued("served-model-name", "NAME", "what requests call the model [the folder's name]"),
      valued("max-model-len", "N", "most tokens of prompt and answer [the model's]"),
      valued("kv-cache", "SIZE", "most memory of keys and values on each rank [1GiB]"),
      valued("max-num-seqs", "N", "answers at a time [64]"),
      valued("max-num-batched-tokens", "N", "tokens a pass [512]"),
      valued("max-queue", "N", "requests that wait; more are refused (429) [64]"),
      valued("max-connections", "N", "more are refused (503) [256]"),
      valued("drain", "SECONDS", "for what runs, after SIGTERM or Ctrl-C [30]"),
  };
}

std::vector<Option> of_bench() {
  return {
      listed("pp", "p n-prompt", "prompts of N tokens; 0: none [512]"),
      listed("tg", "n n-gen", "N tokens written one by one; 0: none [128]"),
      listed("batch", "", "texts at a time, of --tg [1]"),
      listed("depth", "d n-depth", "tokens that are in the cache before [0]"),
      valued("repeat", "N", "runs, after one that warms up [5]", "r repetitions"),
      {.name = "threads",
       .takes_value = true,
       .value = "N",
       .help = "of each rank, as --parallel.threads [cores / ranks]",
       .also = "t",
       .key = "parallel.threads"},
      valued("o", "FORMAT", "md, json, jsonl or csv [md]", "output"),
  };
}

std::vector<Option> of_bench_serve() {
  return {
      valued("base-url", "URL", "of the server [http://127.0.0.1:8000]"),
      valued("model", "NAME", "[the first that the server names]"),
      valued("num-prompts", "N", "requests [1000]"),
      valued("request-rate", "R", "a second; inf: all at once [inf]"),
      valued("burstiness", "B", "1: a Poisson process; below in bursts; inf: evenly [1]"),
      valued("max-concurrency", "N", "under way at a time [any number]"),
      valued("random-input-len", "N", "tokens of a prompt [1024]"),
      valued("random-output-len", "N", "tokens of an answer [128]"),
      plain("ignore-eos", "answers have all of their tokens"),
      valued("temperature", "T", "[the server's]"),
      valued("seed", "N", "of prompts, times and draws [0]"),
      valued("num-warmups", "N", "requests before, not measured [the concurrency, or 1]"),
      valued("ready-wait", "SECONDS", "for the server to be ready [10]"),
      valued("timeout", "SECONDS", "of a request [600]"),
      valued("goodput", "ttft:MS,tpot:MS,e2el:MS", "counts requests that keep to all of them"),
      valued("save-result", "FILE", "as JSON"),
      plain("save-detailed", "in there, values of each request"),
      valued("api-key-file", "FILE", "its first key is sent [TRIREME_API_KEY, OPENAI_API_KEY]"),
  };
}

std::vector<Option> of_checkpoint() {
  return {
      valued("dtype", "f32|bf16|f16", "export: of the weights [as they were, else f32]"),
      valued("shard_size", "SIZE", "export: of a file, at most [5GB]"),
      valued("base", "FOLDER", "merge: the model that the adapters belong to"),
  };
}

Option skip_bad() { return plain("skip-bad", "bad lines of the data are passed over, counted"); }

std::vector<Option> own_of(const std::string& command) {
  if (command == "generate") return of_generate();
  if (command == "chat") return of_chat();
  if (command == "serve") return of_serve();
  if (command == "bench") return of_bench();
  if (command == "bench-serve") return of_bench_serve();
  if (command == "checkpoint") return of_checkpoint();
  if (command == "memory") return {plain("explain", "the formula and factors of each number")};
  if (command == "train")
    return {plain("resume", "goes on with the newest good checkpoint of train.folder"),
            plain("restart", "begins anew in a folder that has a run"), skip_bad()};
  if (command == "tokenize") return {skip_bad()};
  if (command == "data") return {valued("n", "N", "show: samples [4]"), skip_bad()};
  if (command == "tokenizer")
    return {valued("vocab", "N", "train: tokens that there shall be"),
            valued("split", "gpt2|llama3", "train: how text is cut before [gpt2]"), skip_bad()};
  if (command == "evaluate")
    return {valued("task", "lambada|choice", "of the items in FILE.jsonl"),
            valued("stride", "N", "tokens that a window scores [all of them]"), skip_bad()};
  return {};
}

}  // namespace

std::vector<Option> options_of(const std::string& command) {
  std::vector<Option> all = own_of(command);
  all.push_back(plain("json", "results as JSON, where a person gets a table"));
  return all;
}

namespace {

// What there is instead of a flag that those who come from llama-bench type.
std::string_view instead_of(const std::string& command, const std::string& flag) {
  using Row = std::pair<std::string_view, std::string_view>;
  static constexpr std::string_view kFolder = "the folder stands by itself: trireme bench FOLDER",
                                    kPass =
                                        "a pass takes up to 512 tokens; --batch N,... is texts "
                                        "at a time",
                                    kType = "keys and values are of --precision.compute",
                                    kGpu = "there are no GPUs in this version";
  static constexpr std::array<Row, 15> kRows{
      {{"m", kFolder},
       {"model", kFolder},
       {"hf", kFolder},
       {"b", kPass},
       {"batch-size", kPass},
       {"ub", kPass},
       {"ubatch-size", kPass},
       {"ctk", kType},
       {"cache-type-k", kType},
       {"ctv", kType},
       {"cache-type-v", kType},
       {"ngl", kGpu},
       {"n-gpu-layers", kGpu},
       {"pg", "--pp and --tg are measured apart; --tg N --depth N writes behind a prompt"},
       {"mmp", "--offload.parameters=disk reads weights where they lie"}}};
  if (command != "bench") return {};
  const auto* const found =
      std::find_if(kRows.begin(), kRows.end(), [&](const Row& row) { return row.first == flag; });
  return found == kRows.end() ? std::string_view() : found->second;
}

}  // namespace

CommandLine without_slips(CommandLine line, const std::vector<Option>& options) {
  constexpr int kSlips = 2;
  std::vector<std::string> names;
  for (const Option& option : options) names.emplace_back(option.name);
  for (const Flag& flag : line.flags) {
    if (find_key(flag.name) || flag.name.find('.') != std::string::npos) continue;
    if (const auto instead = instead_of(line.command, flag.name); !instead.empty())
      throw UsageError(join(dashed(flag.name), ": no option of ", line.command, ": ", instead));
    const std::string near = nearest_word(flag.name, names);
    const bool slip = !near.empty() && edit_distance(flag.name, near) <= kSlips;
    // A key that is near is told with the other problems, and train's help is that of all keys.
    if (slip || (line.command != "train" && nearest_key(flag.name).empty()))
      throw UsageError(join(dashed(flag.name), ": no option of ", line.command,
                            slip ? "; nearest: " + dashed(near) : std::string(), "; trireme ",
                            line.command, " --help tells all"));
  }
  return line;
}

namespace {

std::string command_help(const Command& command) {
  const std::string name(command.name);
  std::string text = join("usage: trireme ", command.usage, "\n\n", command.help, "\n\n");
  // Who only talks has no table, and refuses --json with a sentence.
  const bool tells = name != "serve" && name != "chat";
  for (const Option& option : options_of(name))
    if (tells || option.name != "json") text += option_help(option);
  if (!command.sections.empty())
    text += join(
        "\nRecipe keys, as flags (--section.key=value); trireme --help SECTION tells those "
        "of a section:\n  ",
        command.sections, "\n");
  if (!command.examples.empty()) text += join("\nexamples:\n", command.examples);
  if (!command.page.empty()) text += join("\nmore: ", command.page, "\n");
  return text;
}

}  // namespace

std::string help_on(const std::string& command, const std::string& topic) {
  const std::string asked = topic.empty() ? command : topic;
  const Command* const found = known_command(asked);
  const bool names_section =
      std::any_of(sections().begin(), sections().end(),
                  [&](const KeySection& section) { return section.name == topic; });
  return found && asked != "train" && !names_section ? command_help(*found) : help_text(topic);
}

}  // namespace trireme
