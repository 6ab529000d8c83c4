#include "recipes/commands/standard_input.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "framework/base/error.h"

namespace trireme {

std::string read_standard_input(std::int64_t limit) {
  std::string text;
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t n = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    check(n >= 0, "standard input: ", std::strerror(errno));
    if (n == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(n));
    check(std::ssize(text) <= limit, "standard input has more than ", limit, " bytes");
  }
}

}  // namespace trireme
