#include "tests/program/harness/program_run.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "framework/base/error.h"

namespace trireme::testing {

namespace fs = std::filesystem;

namespace {

void redirect(const std::string& path, int descriptor) {
  const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0644);
  if (file < 0 || dup2(file, descriptor) < 0) _exit(127);
}

[[noreturn]] void become(const std::vector<std::string>& argv, const ProgramOptions& options,
                         const std::string& out, const std::string& err) {
  redirect(out, STDOUT_FILENO);
  redirect(err, STDERR_FILENO);
  const int input = open(options.input.c_str(), O_RDONLY);
  if (input < 0 || dup2(input, STDIN_FILENO) < 0) _exit(127);
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  if (options.file_limit > 0) {
    const auto limit = static_cast<rlim_t>(options.file_limit);
    const rlimit both{limit, limit};
    setrlimit(RLIMIT_FSIZE, &both);
  }
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  _exit(127);
}

}  // namespace

StartedProgram::StartedProgram(const std::vector<std::string>& argv, const ProgramOptions& options)
    : options_(options) {
  options_.environment.try_emplace("XDG_CACHE_HOME", folder_ / "cache");
  pid_ = fork();
  check(pid_ >= 0, "fork failed");
  if (pid_ == 0) become(argv, options_, folder_ / "out", folder_ / "err");
}

StartedProgram::~StartedProgram() {
  if (ended()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, &status_, 0);
}

bool StartedProgram::ended() {
  if (!reaped_) reaped_ = waitpid(pid_, &status_, WNOHANG) == pid_;
  return reaped_;
}

void StartedProgram::signal(int number) const { kill(pid_, number); }

bool StartedProgram::wait_until(const std::function<bool()>& condition) {
  // Not by the clock: a machine that stood still meanwhile costs one wait.
  const double waits = options_.timeout / 2e-3;
  for (double i = 0; !condition(); ++i) {
    if (ended() || i > waits) return condition();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

std::string StartedProgram::out_so_far() const { return text_of_file(folder_ / "out"); }
std::string StartedProgram::err_so_far() const { return text_of_file(folder_ / "err"); }

ProgramEnd StartedProgram::end() {
  const bool in_time = wait_until([&] { return ended(); });
  if (!in_time) kill(pid_, SIGKILL);
  ProgramEnd result{.out = text_of_file(folder_ / "out"), .err = text_of_file(folder_ / "err")};
  result.code = !in_time               ? -1
                : WIFSIGNALED(status_) ? 128 + WTERMSIG(status_)
                                       : WEXITSTATUS(status_);
  return result;
}

ProgramEnd run_to_end(const std::vector<std::string>& argv, const ProgramOptions& options) {
  return StartedProgram(argv, options).end();
}

TinyRun::TinyRun() {
  std::string text;
  for (int i = 0; text.size() < 20000; ++i)
    text += join("the ", i * i % 97, " oars of the trireme beat ", i % 13, " times; ");
  write_file(this->text(), text);
  write_file(recipe(), join("[model]\nfamily = llama\nlayers = 4\nhidden = 16\nheads = 4\n"
                            "kv_heads = 2\nffn = 48\ndropout = 0.1\ntie_embeddings = true\n"
                            "[data]\ntext = ",
                            this->text(),
                            "\n[batch]\nglobal = 8\nmicro = 1\nsequence = 16\n"
                            "[device]\nkind = reference\n[precision]\ncompute = f64\n"
                            "[train]\nsteps = 3\nseed = 1\nrestart = true\nfolder = ",
                            folder(), "\n"));
}

std::vector<std::string> TinyRun::train(const std::vector<std::string>& flags) const {
  std::vector<std::string> argv = {program(), "train", recipe()};
  argv.insert(argv.end(), flags.begin(), flags.end());
  return argv;
}

std::vector<std::string> TinyRun::train_mpi(int ranks,
                                            const std::vector<std::string>& flags) const {
  return under_mpirun(ranks, train(flags));
}

std::vector<std::string> under_mpirun(int ranks, const std::vector<std::string>& argv) {
  std::vector<std::string> words = {
      "mpirun", "--allow-run-as-root",       "--bind-to", "none", "--oversubscribe",
      "--mca",  "odls_base_sigkill_timeout", "1",         "-n",   std::to_string(ranks)};
  words.insert(words.end(), argv.begin(), argv.end());
  return words;
}

std::string program() { return TRIREME_PROGRAM; }

std::string text_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> column(const std::string& run_folder, const std::string& key) {
  std::vector<std::string> values;
  const std::string mark = "\"" + key + "\": ";
  for (const std::string& line : lines_of(text_of_file(run_folder + "/metrics.jsonl"))) {
    const std::size_t at = line.find(mark);
    if (at == std::string::npos) continue;
    const std::size_t begin = at + mark.size();
    values.push_back(line.substr(begin, line.find_first_of(",}", begin) - begin));
  }
  return values;
}

std::vector<pid_t> ranks_with(const std::string& word) {
  std::vector<pid_t> found;
  std::error_code gone;  // processes may end while we look
  for (const auto& entry : fs::directory_iterator("/proc", gone)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string words = text_of_file(entry.path().string() + "/cmdline");
    const fs::path image = fs::read_symlink(entry.path() / "exe", gone);
    if (words.find(word) != std::string::npos && image.filename() == fs::path(program()).filename())
      found.push_back(std::stoi(name));
  }
  return found;
}

}  // namespace trireme::testing
