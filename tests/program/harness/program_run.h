// Runs the built program as a user would, and looks at what comes out of it.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/faulty_files.h"

namespace trireme::testing {

struct ProgramOptions {
  std::map<std::string, std::string> environment;  // added to this process's; a cache folder is
  long file_limit = 0;                             // largest file it may write, in bytes; 0 = any
  double timeout = 60;                             // seconds, then it is killed
  std::string input = "/dev/null";                 // its standard input
};

struct ProgramEnd {
  int code = 0;  // exit code; 128 + signal if one ended it; -1 after the timeout
  std::string out, err;
};

// A started program; killed by the destructor if it still runs.
class StartedProgram {
 public:
  // argv[0] is a path, or looked up in PATH.
  StartedProgram(const std::vector<std::string>& argv, const ProgramOptions& options = {});
  ~StartedProgram();
  StartedProgram(const StartedProgram&) = delete;
  StartedProgram& operator=(const StartedProgram&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // Until the condition holds; false if the program ended or the timeout came first.
  bool wait_until(const std::function<bool()>& condition);
  ProgramEnd end();
  std::string out_so_far() const;
  std::string err_so_far() const;

 private:
  bool ended();  // reaps it

  ProgramOptions options_;
  TemporaryFolder folder_;  // its output
  pid_t pid_ = 0;
  bool reaped_ = false;
  int status_ = 0;
};

ProgramEnd run_to_end(const std::vector<std::string>& argv, const ProgramOptions& options = {});

// A folder with a text, a recipe of a tiny model on the reference backend in f64, and its
// train.folder "run", in which each run begins anew (train.restart) unless it is given --resume.
class TinyRun {
 public:
  TinyRun();
  std::string operator/(const std::string& name) const { return folder_ / name; }
  std::string recipe() const { return folder_ / "tiny.cfg"; }
  std::string text() const { return folder_ / "text.txt"; }
  std::string folder() const { return folder_ / "run"; }
  // The command line of "train" with these flags.
  std::vector<std::string> train(const std::vector<std::string>& flags = {}) const;
  // The same under mpirun.
  std::vector<std::string> train_mpi(int ranks, const std::vector<std::string>& flags = {}) const;

 private:
  TemporaryFolder folder_;
};

std::string program();  // its path
std::vector<std::string> under_mpirun(int ranks, const std::vector<std::string>& argv);
std::string text_of_file(const std::string& path);  // empty if missing
void write_file(const std::string& path, const std::string& bytes);
bool contains(const std::string& text, const std::string& part);
std::vector<std::string> lines_of(const std::string& text);
// A number of each line of metrics.jsonl, as written: equal bits have equal texts.
std::vector<std::string> column(const std::string& run_folder, const std::string& key);
// Processes that run the program with this word in a command line argument.
std::vector<pid_t> ranks_with(const std::string& word);

}  // namespace trireme::testing
