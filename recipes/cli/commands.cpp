#include <array>

#include "framework/base/error.h"
#include "recipes/cli/command_line.h"
#include "recipes/cli/nearest.h"
#include "recipes/cli/values.h"

namespace trireme {
namespace {

// Of commands that run a model.
constexpr std::string_view kModelSections = "parallel, precision, inference, offload, zero, device";

constexpr std::string_view kGenerateExamples =
    "  trireme generate runs/quickstart --prompt \"In the beginning\"\n"
    "  trireme generate FOLDER --chat --prompt \"Who rows?\" --temperature 0\n"
    "  trireme generate FOLDER - < prompt.txt\n"
    "  trireme generate FOLDER --input q.jsonl --output a.jsonl\n";
constexpr std::string_view kEvaluateExamples =
    "  trireme evaluate FOLDER --data.text=held-out.txt --stride 256\n"
    "  trireme evaluate FOLDER --task choice questions.jsonl --json\n"
    "  mpirun -n 2 trireme evaluate FOLDER --data.text=held-out.txt --parallel.tensor=2\n";
constexpr std::string_view kChatExamples =
    "  trireme chat FOLDER                        /help tells what it understands, /quit ends\n"
    "  trireme chat FOLDER --system \"Be brief.\" --temperature 0.5\n"
    "  trireme chat FOLDER < questions.txt        each line a message\n";
constexpr std::string_view kServeExamples =
    "  trireme serve runs/quickstart              then http://127.0.0.1:8000/ is a page to chat\n"
    "  trireme serve FOLDER --port 9000 --api-key-file keys.txt\n"
    "  trireme serve FOLDER --parallel.tensor=2 --inference.weights=int8\n"
    "  trireme serve FOLDER --offload.parameters=disk\n";
constexpr std::string_view kBenchExamples =
    "  trireme bench FOLDER\n"
    "  trireme bench FOLDER --batch 1,8,32 --depth 512 -o jsonl\n";
constexpr std::string_view kBenchServeExamples =
    "  trireme bench-serve --num-prompts 200 --max-concurrency 16\n"
    "  trireme bench-serve --request-rate 4 --goodput ttft:500,tpot:100 --save-result r.json\n";

constexpr std::array<Command, 14> kCommands{{
    {"train", "train [RECIPE] [--section.key=value ...]", "train a model", true},
    {"tokenize", "tokenize TEXT TOKENS", "write the tokens of a text to an HDF5 file", true, "data",
     "", "docs/data.md"},
    {"generate", "generate FOLDER [--prompt TEXT] [--chat]",
     "continue texts, answer messages: one, or JSON lines", true, kModelSections, kGenerateExamples,
     "docs/chat.md"},
    {"evaluate", "evaluate FOLDER --data.text=FILE",
     "perplexity of a text, right answers of a task", true,
     "data, parallel, precision, inference, offload, zero, device", kEvaluateExamples,
     "docs/evaluate.md"},
    {"chat", "chat FOLDER [--system TEXT]", "talk to a model in the terminal", true, kModelSections,
     kChatExamples, "docs/chat.md"},
    {"serve", "serve FOLDER [--port 8000] [--api-key-file FILE]",
     "answer OpenAI's clients over HTTP", true, kModelSections, kServeExamples, "docs/serve.md"},
    {"bench-serve", "bench-serve [--base-url URL]", "measure a server under load", true, "",
     kBenchServeExamples, "docs/bench.md"},
    {"memory", "memory RECIPE|RUN_FOLDER [--explain]", "tell a recipe's memory before it runs",
     true, "all of them", "", "docs/memory.md"},
    {"report", "report FOLDER...", "show runs side by side and compare their losses", true},
    {"checkpoint", "checkpoint inspect|verify|diff|export|import|merge ...",
     "look into checkpoints, export or import one", true, "", "", "docs/checkpoints.md"},
    {"data", "data show RECIPE|info FILE", "show what a run learns, count tokens", true,
     "data, batch", "", "docs/data.md"},
    {"tokenizer", "tokenizer train|show ...", "make a tokenizer, or show the tokens of a text",
     true, "data", "", "docs/tokenizers.md"},
    {"bench", "bench FOLDER [--pp 512] [--tg 128]", "measure how fast a model reads and writes",
     true, kModelSections, kBenchExamples, "docs/bench.md"},
    {"doctor", "doctor", "look at this machine: CPU, memory, MPI, disk, versions", true},
}};

}  // namespace

std::span<const Command> commands() { return kCommands; }

const Command* known_command(std::string_view name) {
  for (const Command& command : kCommands)
    if (command.name == name) return &command;
  return nullptr;
}

const Command& find_command(std::string_view name) {
  if (const Command* command = known_command(name)) {
    if (command->available) return *command;
    throw UsageError(
        join("trireme ", name, " is not part of this version; trireme --help lists what is"));
  }
  std::vector<std::string> words;
  for (const Command& command : kCommands) words.emplace_back(command.name);
  const std::string near = nearest_word(name, words);
  throw UsageError(join("unknown subcommand \"", name, "\"",
                        near.empty() ? "; trireme --help lists them" : "; nearest: " + near));
}

}  // namespace trireme
