// The trireme program: looks at the world once, then hands values down.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <new>
#include <string_view>

#include "framework/base/error.h"
#include "recipes/commands/command_options.h"
#include "recipes/commands/process.h"
#include "recipes/report/printable.h"
#include "recipes/train/last_failure.h"

extern char** environ;

namespace {

using namespace trireme;

std::atomic<int> signals_received{0};

// The first signal asks for the end of the run, the second ends it at once.
void on_signal(int number) {
  if (signals_received.fetch_add(1) > 0) _exit(128 + number);
}

std::atomic<int> save_requests{0};

void on_save_request(int) { save_requests.fetch_add(1); }

// The same of a process that is alone: one voice. A step may take a while, and silence looks like a
// hang. Only calls that a handler may make.
void on_signal_spoken(int number) {
  constexpr std::string_view kEnding =
      "\ntrireme: ending after what is under way; once more ends at once\n";
  on_signal(number);
  const int before = errno;
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kEnding.data(), kEnding.size());
  errno = before;
}

std::map<std::string, std::string> environment() {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) all[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return all;
}

int terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// Whether ranks share this machine as processes.
bool beside_other_processes(const std::map<std::string, std::string>& variables) {
  std::string local;
  for (const char* name :
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"})
    if (const auto it = variables.find(name); it != variables.end()) local += it->second;
  return !local.empty() && local != "1";
}

// How threads of a team wait for each other. Rank processes of one machine must not spin at all. A
// process that is alone spins for less than a millisecond: libgomp's 300,000 rounds are several,
// and where others want the cores, too, most of its time goes there. libgomp reads its environment
// before main, so the program starts itself again, once, before MPI is touched.
void set_waits(const std::map<std::string, std::string>& variables, char** argv) {
  constexpr const char* kRounds = "5000";
  const std::string command = argv[0] != nullptr && argv[1] != nullptr ? argv[1] : "";
  constexpr std::array<std::string_view, 6> kComputing{"train", "generate", "evaluate",
                                                       "chat",  "serve",    "bench"};
  if (std::find(kComputing.begin(), kComputing.end(), command) == kComputing.end()) return;
  if (variables.contains("OMP_WAIT_POLICY") || variables.contains("GOMP_SPINCOUNT")) return;
  beside_other_processes(variables) ? setenv("OMP_WAIT_POLICY", "passive", 1)
                                    : setenv("GOMP_SPINCOUNT", kRounds, 1);
  execv("/proc/self/exe", argv);  // on failure: go on, only slower
}

int dispatch(Process& process, const CommandLine& line) {
  if (!line.command.empty()) find_command(line.command);
  if (line.help || line.command.empty()) {
    process.out << help_on(line.command, line.help_topic);
    return line.help ? 0 : 2;
  }
  if (line.command == "train") return train_command(process, line);
  if (line.command == "tokenize") return tokenize_command(process, line);
  if (line.command == "data") return data_command(process, line);
  if (line.command == "tokenizer") return tokenizer_command(process, line);
  if (line.command == "report") return report_command(process, line);
  if (line.command == "generate") return generate_command(process, line);
  if (line.command == "evaluate") return evaluate_command(process, line);
  if (line.command == "checkpoint") return checkpoint_command(process, line);
  if (line.command == "chat") return chat_command(process, line);
  if (line.command == "serve") return serve_command(process, line);
  if (line.command == "bench-serve") return bench_serve_command(process, line);
  if (line.command == "bench") return bench_command(process, line);
  if (line.command == "memory") return memory_command(process, line);
  return doctor_command(process, line);
}

// In one piece, so that the sentences of several processes do not mix; what they quote of a
// stranger's file does not command the terminal.
int told(Process& process, const std::exception& error, int code) {
  const std::string reason = reason_of(error);
  try {
    process.err << join("trireme: ", printable(reason), "\n") << std::flush;
  } catch (const std::bad_alloc&) {  // in pieces, then
    process.err << "trireme: " << reason << "\n" << std::flush;
  }
  return code;
}

int run(Process& process, int argc, char** argv) {
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    const std::string command = arguments.empty() ? "" : arguments[0];
    const std::vector<Option> options = options_of(command);
    const CommandLine line = without_slips(split_command_line(arguments, options), options);
    return dispatch(process, with_data_flags(line));
  } catch (const RepeatedFailure& error) {
    return told(process, error, 3);
  } catch (const UsageError& error) {
    return told(process, error, 2);
  } catch (const std::exception& error) {
    return told(process, error, 1);
  }
}

// libhdf5 calls exit(-1) by itself when it has no memory for a handle, without a word.
void on_exit_of_a_library(int status, void*) {
  constexpr std::string_view kSentence =
      "trireme: out of memory: the HDF5 library ended the program; checkpoints that were complete "
      "are whole\n";
  if ((status & 255) != 255) return;
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kSentence.data(), kSentence.size());
  _exit(1);
}

int run_program(int argc, char** argv) {
  const std::map<std::string, std::string> variables = environment();
  const auto lookup = [&](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  };
  const bool launched = under_launcher(lookup);
  set_waits(variables, argv);

  struct sigaction action {};
  action.sa_handler = launched ? on_signal : on_signal_spoken;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = on_save_request;
  sigaction(SIGUSR1, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a file at its limit is an error of the write, with a sentence

  const auto files = real_files();
  std::unique_ptr<MpiSession> mpi;
  const char* no_color = lookup("NO_COLOR");
  const char* term = lookup("TERM");
  const TerminalTraits terminal{.is_terminal = isatty(STDERR_FILENO) == 1,
                                .no_color = no_color != nullptr && *no_color != 0,
                                .term = term != nullptr ? term : "",
                                .columns_now = terminal_columns};
  Process process{.environment = variables,
                  .terminal = terminal,
                  .color_out = terminal.color() && isatty(STDOUT_FILENO) == 1,
                  .out = std::cout,
                  .err = std::cerr,
                  .files = *files,
                  .signals = signals_received,
                  .save_requests = save_requests,
                  .under_launcher = launched,
                  .mpi = [&]() -> MpiSession& {
                    if (!mpi) mpi = MpiSession::start(&argc, &argv);
                    return *mpi;
                  }};
  int code = run(process, argc, argv);
  if (!std::cout.flush() && code == 0)
    code = told(process, Error("standard output took not all of the results"), 1);
  if (code != 0 && mpi) mpi->abort_job(code);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  on_exit(on_exit_of_a_library, nullptr);
  try {
    return run_program(argc, argv);
  } catch (const std::exception& error) {  // before there is anything, or behind all of it
    std::fputs("trireme: ", stderr);
    std::fputs(trireme::reason_of(error).c_str(), stderr);
    std::fputs("\n", stderr);
    return 1;
  }
}
