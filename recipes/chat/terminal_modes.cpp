#include "recipes/chat/terminal_modes.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstring>

#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr const char *kPasteOn = "\033[?2004h", *kPasteOff = "\033[?2004l";
constexpr char kEnd = '\004';  // Ctrl-D

}  // namespace

TerminalModes::TerminalModes(int in, int out) : in_(in), out_(out) {
  check(::tcgetattr(in_, &found_) == 0, "the terminal does not tell its modes");
  taken_ = found_;
  taken_.c_iflag |= ICRNL;
  taken_.c_iflag &= ~static_cast<tcflag_t>(IGNCR | INLCR);
  taken_.c_lflag |= ISIG;
  taken_.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ECHONL | IEXTEN);
  taken_.c_cc[VMIN] = 1;
  taken_.c_cc[VTIME] = 0;
}

// A terminal that does not control this process knows no background.
bool TerminalModes::in_background() const {
  const pid_t front = ::tcgetpgrp(in_);
  return front >= 0 && front != ::getpgrp();
}

void TerminalModes::take() {
  if (in_background()) return;
  is_taken_ = true;
  ::tcsetattr(in_, TCSANOW, &taken_);
  int waiting = 0;
  if (::ioctl(in_, FIONREAD, &waiting) == 0) earlier_ = waiting;
  write_out(kPasteOn);
}

void TerminalModes::put_back() {
  if (in_background()) return;
  is_taken_ = false;
  write_out(kPasteOff);
  ::tcsetattr(in_, TCSANOW, &found_);
}

ssize_t TerminalModes::read(char* into, std::size_t most) {
  const ssize_t n = ::read(in_, into, most);
  for (ssize_t i = 0; i < n && earlier_ > 0; ++i, --earlier_)
    if (into[i] == '\0') into[i] = kEnd;  // what becomes of the mark
  return n;
}

void TerminalModes::write_out(const char* text) const {
  [[maybe_unused]] const auto written = ::write(out_, text, std::strlen(text));
}

}  // namespace trireme
