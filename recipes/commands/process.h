// What the process was given: its environment, terminal and signals, as values. Only main() looks
// at the world.
#pragma once

#include <atomic>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/base/files.h"
#include "framework/comm/communicator.h"
#include "recipes/cli/command_line.h"
#include "recipes/cli/parse.h"
#include "recipes/report/console.h"

namespace trireme {

struct Process {
  std::map<std::string, std::string> environment;
  TerminalTraits terminal;  // of standard error
  bool color_out = false;   // results go to a terminal that shows colours
  std::ostream& out;        // results
  std::ostream& err;        // progress and logs
  Files& files;
  const std::atomic<int>& signals;        // SIGINT and SIGTERM received so far
  const std::atomic<int>& save_requests;  // SIGUSR1 received so far
  bool under_launcher = false;
  // MPI, started on first use. Null when this is not an MPI process.
  std::function<MpiSession&()> mpi;

  // Empty if unset.
  std::string variable(const std::string& name) const;
  // ${XDG_CACHE_HOME:-~/.cache}/trireme
  std::string cache_folder() const;
  int cores() const;  // that this process may use
};

// The exit code of what a signal ended before it was done.
inline constexpr int kInterrupted = 130;

// A subcommand: returns the exit code.
int train_command(Process& process, const CommandLine& line);
int tokenize_command(Process& process, const CommandLine& line);
int memory_command(Process& process, const CommandLine& line);
int doctor_command(Process& process, const CommandLine& line);
int generate_command(Process& process, const CommandLine& line);
int evaluate_command(Process& process, const CommandLine& line);
int checkpoint_command(Process& process, const CommandLine& line);
int report_command(Process& process, const CommandLine& line);
int tokenizer_command(Process& process, const CommandLine& line);
int chat_command(Process& process, const CommandLine& line);
int bench_command(Process& process, const CommandLine& line);
int bench_serve_command(Process& process, const CommandLine& line);
int serve_command(Process& process, const CommandLine& line);
int data_command(Process& process, const CommandLine& line);

// With --skip-bad as the recipe key that it is short for, where it is about data to be read.
CommandLine with_data_flags(CommandLine line);

// What the folder of model.from says, for parse_recipe; reads with `files`, which must outlive it.
std::function<ModelKeys(const std::string& folder)> model_keys_reader(Files& files);

// The recipe file named on the line, with its flags and the environment. Throws UsageError.
Recipe recipe_of(Process& process, const CommandLine& line, bool needs_data);

}  // namespace trireme
