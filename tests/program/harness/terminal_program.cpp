#include "tests/program/harness/terminal_program.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "framework/base/error.h"

namespace trireme::testing {

namespace {

// Waits, each of 20 ms or longer, without a word of the program; not a time by the clock, so that a
// machine that stood still meanwhile costs one of them.
constexpr int kPatience = 3000;

[[noreturn]] void become(const std::vector<std::string>& argv,
                         const std::map<std::string, std::string>& environment, int slave) {
  ::setsid();
  ::ioctl(slave, TIOCSCTTY, 0);
  for (int descriptor = 0; descriptor < 3; ++descriptor) ::dup2(slave, descriptor);
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  ::_exit(127);
}

}  // namespace

TerminalProgram::TerminalProgram(const std::vector<std::string>& argv,
                                 const std::map<std::string, std::string>& environment) {
  const winsize size{.ws_row = 40, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
  check(::openpty(&master_, &slave_, nullptr, nullptr, &size) == 0, "no terminal is left");
  ::fcntl(master_, F_SETFD, FD_CLOEXEC);
  check(::tcgetattr(slave_, &before_) == 0, "the terminal does not tell its modes");
  pid_ = ::fork();
  check(pid_ >= 0, "fork failed");
  if (pid_ == 0) become(argv, environment, slave_);
}

TerminalProgram::~TerminalProgram() {
  if (!reaped_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(master_);
  ::close(slave_);
}

void TerminalProgram::type(const std::string& text) const {
  check(::write(master_, text.data(), text.size()) == std::ssize(text), "the terminal is full");
}

void TerminalProgram::signal(int number) const { ::kill(pid_, number); }

void TerminalProgram::signal_all(int number) const { ::kill(-pid_, number); }

std::string TerminalProgram::left() const {
  pollfd wait{slave_, POLLIN, 0};
  if (::poll(&wait, 1, 0) <= 0) return {};
  char buffer[4096];
  const ssize_t n = ::read(slave_, buffer, sizeof buffer);
  return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : std::string();
}

bool TerminalProgram::more() {
  pollfd wait{master_, POLLIN, 0};
  if (::poll(&wait, 1, 20) <= 0) return false;
  char buffer[4096];
  const ssize_t n = ::read(master_, buffer, sizeof buffer);
  if (n > 0) shown_.append(buffer, static_cast<std::size_t>(n));
  return n > 0;
}

bool TerminalProgram::until(const std::string& text) {
  for (int waits = 0;;) {
    const std::size_t found = shown_.find(text, seen_);
    if (found != std::string::npos) {
      seen_ = found + text.size();
      return true;
    }
    if (!more() && ++waits > kPatience) return false;
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == pid_) {
      while (more()) {
      }
      if (shown_.find(text, seen_) == std::string::npos) return false;
    }
  }
}

bool TerminalProgram::stopped() const {
  siginfo_t info{};
  const int what = WSTOPPED | WEXITED | WNOWAIT;
  return ::waitid(P_PID, static_cast<id_t>(pid_), &info, what) == 0 && info.si_code == CLD_STOPPED;
}

int TerminalProgram::end() {
  int status = 0;
  for (int waits = 0; !reaped_;) {
    if (!more()) ++waits;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) reaped_ = true;
    if (!reaped_ && waits > kPatience) return -1;
  }
  while (more()) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool TerminalProgram::modes_are_as_before() const {
  termios now{};
  if (::tcgetattr(slave_, &now) != 0) return false;
  return now.c_iflag == before_.c_iflag && now.c_oflag == before_.c_oflag &&
         now.c_cflag == before_.c_cflag && now.c_lflag == before_.c_lflag &&
         std::memcmp(now.c_cc, before_.c_cc, sizeof now.c_cc) == 0;
}

bool TerminalProgram::takes_the_terminal() const {
  for (int i = 0; i < 6000 && modes_are_as_before(); ++i) ::usleep(10'000);
  return !modes_are_as_before();
}

}  // namespace trireme::testing
