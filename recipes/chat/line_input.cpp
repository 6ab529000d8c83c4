#include "recipes/chat/line_input.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "framework/base/error.h"

namespace trireme {

namespace {

class PipedLines final : public LineInput {
 public:
  PipedLines(int descriptor, Interrupts& interrupts, std::function<void()> idle)
      : descriptor_(descriptor), interrupts_(interrupts), idle_(std::move(idle)) {}

  InputRead read(const std::string&, const std::string&) override {
    for (;;) {
      const std::size_t end = held_.find('\n');
      if (end != std::string::npos) return line(end, end + 1);
      if (ended_) return held_.empty() ? InputRead{} : line(held_.size(), held_.size());
      switch (interrupts_.wait(descriptor_, idle_)) {
        case Interrupts::Woken::kTerminate:
          return {.kind = InputRead::Kind::kTerminate};
        case Interrupts::Woken::kInterrupt:
          interrupts_.take();
          return {.kind = InputRead::Kind::kInterrupt};
        case Interrupts::Woken::kContinued:
          break;
        case Interrupts::Woken::kInput:
          more();
      }
    }
  }

 private:
  InputRead line(std::size_t size, std::size_t taken) {
    InputRead read{.kind = InputRead::Kind::kLine, .text = held_.substr(0, size)};
    held_.erase(0, taken);
    return read;
  }
  void more() {
    std::array<char, 65536> buffer;
    const ssize_t n = ::read(descriptor_, buffer.data(), buffer.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    check(n >= 0, "standard input: ", std::strerror(errno));
    if (n == 0) ended_ = true;
    held_.append(buffer.data(), static_cast<std::size_t>(n));
  }

  int descriptor_;
  Interrupts& interrupts_;
  std::function<void()> idle_;
  std::string held_;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<LineInput> piped_lines(int descriptor, Interrupts& interrupts,
                                       std::function<void()> idle) {
  return std::make_unique<PipedLines>(descriptor, interrupts, std::move(idle));
}

}  // namespace trireme
