#include "framework/base/program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "framework/base/error.h"

namespace trireme {

namespace {

std::string reason(int error) { return std::generic_category().message(error); }

struct Pipe {
  Pipe() { check(::pipe2(ends.data(), O_CLOEXEC) == 0, "run a program: pipe: ", reason(errno)); }
  ~Pipe() {
    ::close(ends[0]);
    close_writer();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_writer() {
    if (ends[1] >= 0) ::close(ends[1]);
    ends[1] = -1;
  }
  std::array<int, 2> ends{};
};

// 0 or an errno; `child` is the process.
int start(const std::vector<std::string>& argv, const Pipe& pipe, pid_t& child) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipe.ends[1], 1);
  const int error = ::posix_spawnp(&child, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
    if (got > 0) text.append(buffer.data(), static_cast<std::size_t>(got));
    if (got == 0 || (got < 0 && errno != EINTR)) return text;
  }
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return 127;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& argv) {
  check(!argv.empty(), "run a program: no name");
  ProgramResult result;
  Pipe pipe;
  pid_t child = 0;
  const int error = start(argv, pipe, child);
  if (error == ENOENT) return result;
  check(error == 0, "run ", argv[0], ": ", reason(error));
  pipe.close_writer();
  result.found = true;
  result.output = read_all(pipe.ends[0]);
  result.status = wait_for(child);
  return result;
}

}  // namespace trireme
