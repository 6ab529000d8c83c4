#include "recipes/chat/external_editor.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr int kWait = 50, kIdle = 10;  // milliseconds; waits between two calls of `idle`

// The terminal is the editor's while this lives.
class Lent {
 public:
  explicit Lent(Interrupts& interrupts) : interrupts_(interrupts) { interrupts.lend(); }
  ~Lent() { interrupts_.reclaim(); }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

 private:
  Interrupts& interrupts_;
};

int run(const std::string& command, const std::string& path, Interrupts& interrupts,
        const std::function<void()>& idle) {
  // A program with plain arguments takes the shell's place: signals of the keyboard end no shell
  // under an editor that goes on.
  const bool plain = command.find_first_of("|&;<>()$`\\\"'*?[]{}#~=%!\n") == std::string::npos;
  const std::string script = (plain ? "exec " : "") + command + " \"$1\"";
  const Lent lent(interrupts);
  const pid_t child = ::fork();
  check(child >= 0, "the editor cannot be started: no process is left");
  if (child == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execl("/bin/sh", "sh", "-c", script.c_str(), "sh", path.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  for (int waits = 1; ::waitpid(child, &status, WNOHANG) == 0; ++waits) {
    ::poll(nullptr, 0, kWait);
    if (waits % kIdle == 0 && idle) idle();
    if (interrupts.ending() != 0) ::kill(child, SIGTERM);
  }
  return status;
}

}  // namespace

std::optional<std::string> edited(Files& files, const std::string& command,
                                  const std::string& folder, const std::string& text,
                                  Interrupts& interrupts, const std::function<void()>& idle) {
  const std::string path = files.temporary_name(path_join(folder, "trireme-message")) + ".txt";
  const auto file = files.open(path, OpenMode::kScratch);
  const std::string whole = text + "\n";
  file->write(whole.data(), std::ssize(whole), 0);
  file->close();
  const int status = run(command, path, interrupts, idle);
  std::string left = read_whole(files, path, std::int64_t{64} << 20);
  files.remove(path);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
  while (left.ends_with('\n') || left.ends_with('\r')) left.pop_back();
  return left;
}

}  // namespace trireme
