#include "recipes/chat/interrupts.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT};
constexpr int kIdleMilliseconds = 500;

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kSignals) sigaddset(&set, number);
  return set;
}

void add_one(int descriptor) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(descriptor, &one, sizeof one);
}

}  // namespace

Interrupts::Interrupts() {
  const sigset_t set = watched();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = ::signalfd(-1, &set, SFD_CLOEXEC);
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  finish_ = ::eventfd(0, EFD_CLOEXEC);
  check(signals_ >= 0 && wake_ >= 0 && finish_ >= 0, "signalfd: no descriptor is left");
  watcher_ = std::thread([this] { watch(); });
}

Interrupts::~Interrupts() {
  add_one(finish_);
  watcher_.join();
  for (const int descriptor : {signals_, wake_, finish_}) ::close(descriptor);
  const sigset_t set = watched();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void Interrupts::begin(Terminal terminal) {
  const std::scoped_lock lock(mutex_);
  terminal_ = std::move(terminal);
  begun_ = true;
}

void Interrupts::lend() {
  const std::scoped_lock lock(mutex_);
  put_back();
  lent_ = true;
}

void Interrupts::reclaim() {
  const std::scoped_lock lock(mutex_);
  lent_ = false;
  if (terminal_.take) terminal_.take();
}

void Interrupts::put_back() {
  if (!lent_ && terminal_.put_back) terminal_.put_back();
}

bool Interrupts::take() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read = ::read(wake_, &count, sizeof count);
  return told_.exchange(0) > 0;
}

void Interrupts::watch() {
  for (;;) {
    std::array<pollfd, 2> waits{{{signals_, POLLIN, 0}, {finish_, POLLIN, 0}}};
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    if (waits[1].revents != 0) return;
    signalfd_siginfo info{};
    if (::read(signals_, &info, sizeof info) == sizeof info)
      heard(static_cast<int>(info.ssi_signo));
  }
}

void Interrupts::heard(int number) {
  const std::scoped_lock lock(mutex_);
  if (number == SIGTSTP) return stop_here();
  if (number == SIGCONT) return go_on();
  if (lent_ && (number == SIGINT || number == SIGQUIT)) return;
  if (!begun_) leave(number);
  const bool hangs = number == SIGINT ? told_.fetch_add(1) > 0 : ending_.exchange(number) != 0;
  if (hangs) leave(number);
  add_one(wake_);
}

void Interrupts::stop_here() {
  put_back();
  ::raise(SIGSTOP);
}

void Interrupts::go_on() {
  if (lent_) return;
  if (terminal_.take) terminal_.take();
  continued_ = true;
  add_one(wake_);
}

void Interrupts::leave(int number) {
  put_back();
  ::_exit(128 + number);
}

Interrupts::Woken Interrupts::wait(int descriptor, const std::function<void()>& idle) {
  for (;;) {
    if (ending() != 0) return Woken::kTerminate;
    if (told_.load() > 0) return Woken::kInterrupt;
    std::array<pollfd, 2> waits{{{descriptor, POLLIN, 0}, {wake_, POLLIN, 0}}};
    const int ready = ::poll(waits.data(), waits.size(), kIdleMilliseconds);
    if (ready == 0 && idle) idle();
    if (ready <= 0) continue;
    if (waits[1].revents != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const auto read = ::read(wake_, &count, sizeof count);
      if (continued_.exchange(false)) return Woken::kContinued;
      continue;
    }
    if (waits[0].revents != 0) return Woken::kInput;
  }
}

}  // namespace trireme
