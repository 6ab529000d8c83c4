// trireme chat FOLDER [--system TEXT] [--overflow error|slide] [--no-history] [--temperature T] ...
// [--section.key=value ...]: a conversation with the newest good checkpoint of a run, or with a
// Hugging Face model folder. docs/chat.md.
//
// The chat runs on the thread of world rank 0, which also runs the engine; the other ranks follow.
// Under mpirun, which hands its standard input on to rank 0 alone, lines are read as from a pipe.
#include <unistd.h>

#include <ostream>

#include "framework/base/error.h"
#include "recipes/chat/chat_history.h"
#include "recipes/chat/chat_session.h"
#include "recipes/chat/external_editor.h"
#include "recipes/chat/line_editor.h"
#include "recipes/cli/values.h"
#include "recipes/commands/text_engine.h"
#include "recipes/report/printable.h"

namespace trireme {

namespace {

struct ChatWishes {
  ChatOptions options;
  std::int64_t kv_bytes = std::int64_t{1} << 30;
  std::int64_t context = 0;  // 0: the model's
  bool keeps_history = true;
};

ChatWishes chat_wishes(const CommandLine& line) {
  if (line.names.size() != 1)
    throw UsageError(
        "chat: needs the folder of a run with checkpoints, or a Hugging Face model folder: "
        "trireme chat FOLDER [--system TEXT] [--overflow error|slide] [--no-history] "
        "[--temperature 0.8] [--top_k 40] [--seed 1] [--tokens N]; docs/chat.md has all "
        "options, /help the commands");
  if (line.options.contains("json")) throw UsageError("chat: there is no table for --json");
  ChatWishes w;
  for (const auto& [name, value] : line.options) {
    if (name == "system") {
      w.options.system = value;
    } else if (name == "no-history") {
      w.keeps_history = false;
    } else if (name == "overflow") {
      if (value != "error" && value != "slide")
        throw UsageError(join("--overflow = ", value, ": expected error or slide"));
      w.options.slides = value == "slide";
    } else if (name == "kv-cache") {
      w.kv_bytes = parse_size(value).value_or(0);
      if (w.kv_bytes < 1)
        throw UsageError(join("--kv-cache = ", value, ": expected a size, as 1GiB"));
    } else if (name == "max-model-len") {
      w.context = parse_count(value).value_or(0);
      if (w.context < 1)
        throw UsageError(join("--max-model-len = ", value, ": expected a whole number from 1 on"));
    } else if (const std::string wrong = set_answer(w.options.settings, name, value);
               !wrong.empty()) {
      throw UsageError("--" + wrong);
    }
  }
  return w;
}

// ${XDG_STATE_HOME:-~/.local/state}/trireme/chat_history; empty if there is no home.
std::string history_path(const Process& process) {
  const std::string state = process.variable("XDG_STATE_HOME"), home = process.variable("HOME");
  if (!state.empty()) return path_join(state, "trireme/chat_history");
  return home.empty() ? "" : path_join(home, ".local/state/trireme/chat_history");
}

// Signals are told from here on; the terminal is there for as long as it may be put back.
class Told {
 public:
  Told(Interrupts& interrupts, TerminalInput* terminal) : interrupts_(interrupts) {
    Interrupts::Terminal hands;
    if (terminal)
      hands = {.put_back = [terminal] { terminal->put_back(); },
               .take = [terminal] { terminal->take(); }};
    interrupts.begin(hands);
  }
  ~Told() { interrupts_.begin({}); }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;

 private:
  Interrupts& interrupts_;
};

class Chat {
 public:
  Chat(Process& process, const CommandLine& line)
      : process_(process), line_(line), wishes_(chat_wishes(line)) {
    const bool asks = isatty(STDIN_FILENO) == 1, shows = isatty(STDOUT_FILENO) == 1;
    wishes_.options.live = asks && (shows || process.terminal.is_terminal);
    prints_on_error_ = !shows;
    wishes_.options.dim =
        wishes_.options.live && (shows ? process.color_out : process.terminal.color());
  }

  int run() {
    open_model(process_, line_, line_.names[0],
               [&](const ModelSource& source) { return prepare(source); },
               {.bytes = wishes_.kv_bytes, .tokens = wishes_.context, .whole = true});
    return code_;
  }

 private:
  // Before any rank starts.
  ModelWork prepare(const ModelSource& source) {
    if (source.recipe.model.family == "mlp")
      throw UsageError("chat: model.family = mlp classifies; a model that continues texts talks");
    use_defaults(source.drawing, line_, wishes_.options.settings.sampling);
    ServedModel model = served_model(process_.files, source, folder_name(line_.names[0]));
    check(model.chat_problem.empty(), "chat: ", printable(model.chat_problem));
    if (wishes_.context > model.context)
      throw UsageError(join("--max-model-len = ", wishes_.context, ": the model has ",
                            model.context, " positions"));
    if (wishes_.context > 0) model.context = wishes_.context;
    if (!model.chat && !wishes_.options.system.empty())
      throw UsageError(
          "--system: this is a base model, which continues a text; its tokenizer has no chat "
          "template");
    return [this, model](const OpenedModel& opened) {
      with_text_engine(opened, model, {.kv_bytes = wishes_.kv_bytes},
                       [&](const TextEngine& text) { talk(text); });
    };
  }

  void talk(const TextEngine& text) {
    if (process_.under_launcher)
      process_.err << "a launcher hands on what is typed: each line is a message, Ctrl-D ends\n"
                   << std::flush;
    const auto idle = [&] { text.runner.idle(); };
    ChatOptions& options = wishes_.options;
    std::ostream& notes = options.live && !prints_on_error_ ? process_.out : process_.err;
    const auto history = open_history();
    std::unique_ptr<TerminalInput> terminal;
    std::unique_ptr<LineInput> pipe;
    if (options.live)
      terminal = terminal_lines(
          interrupts_,
          {.history = history ? history->earlier() : std::vector<std::string>(),
           .idle = idle,
           .complete = [&](std::string_view typed) { return complete_line(typed, process_.files); },
           .prints_on_error = prints_on_error_});
    else
      pipe = piped_lines(STDIN_FILENO, interrupts_, idle);
    const Told told(interrupts_, terminal.get());
    ChatParts parts{.engine = text.engine,
                    .model = text.model,
                    .input = terminal ? *terminal : *pipe,
                    .interrupts = interrupts_,
                    .out = process_.out,
                    .notes = notes,
                    .files = process_.files};
    if (const std::string editor = editor_command(); options.live && !editor.empty())
      parts.edit = [&, editor](const std::string& said) {
        const std::string folder = process_.variable("TMPDIR");
        return edited(process_.files, editor, folder.empty() ? "/tmp" : folder, said, interrupts_,
                      idle);
      };
    if (history) parts.keep = [&](const std::string& said) { history->add(said); };
    code_ = ChatSession(parts, options).run();
  }

  std::string editor_command() const {
    const std::string visual = process_.variable("VISUAL");
    return visual.empty() ? process_.variable("EDITOR") : visual;
  }

  std::unique_ptr<ChatHistory> open_history() {
    const std::string path = history_path(process_);
    if (!wishes_.options.live || !wishes_.keeps_history || path.empty()) return nullptr;
    try {
      return std::make_unique<ChatHistory>(process_.files, path);
    } catch (const Error& error) {
      process_.err << join("no history: ", error.what(), "\n") << std::flush;
      return nullptr;
    }
  }

  Process& process_;
  const CommandLine& line_;
  Interrupts interrupts_;  // before any other thread
  ChatWishes wishes_;
  bool prints_on_error_ = false;
  int code_ = 0;
};

}  // namespace

int chat_command(Process& process, const CommandLine& line) { return Chat(process, line).run(); }

}  // namespace trireme
