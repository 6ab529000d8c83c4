#include "recipes/commands/transfer_bar.h"

#include <algorithm>
#include <charconv>
#include <ostream>
#include <string_view>

#include "framework/base/error.h"
#include "recipes/report/numbers.h"

namespace trireme {

TransferBar::TransferBar(Process& process, std::string what)
    : process_(process), what_(std::move(what)), console_(process.err, process.terminal, nullptr) {}

std::function<void(std::int64_t, std::int64_t)> TransferBar::progress() {
  return [this](std::int64_t done, std::int64_t all) {
    check(process_.signals.load() == 0, what_, ": ended by a signal; nothing of it is left");
    if (done < all)
      console_.bar(done, all, join(bytes_text(done), " of ", bytes_text(all)));
    else
      console_.clear();
  };
}

std::int64_t TransferBar::peak_bytes() const {
  constexpr std::string_view kKey = "VmHWM:";
  const auto file = process_.files.open("/proc/self/status", OpenMode::kRead);
  char text[4096] = {};
  const std::int64_t read = file->read_some(text, sizeof text, 0);
  const std::string_view all(text, static_cast<std::size_t>(std::max<std::int64_t>(0, read)));
  std::size_t at = all.find(kKey);
  if (at == std::string_view::npos) return 0;
  at = all.find_first_of("0123456789", at);
  std::int64_t kilobytes = 0;
  if (at != std::string_view::npos)
    std::from_chars(all.data() + at, all.data() + all.size(), kilobytes);
  return kilobytes * 1024;
}

std::string TransferBar::peak_text() const {
  const std::int64_t bytes = peak_bytes();
  return bytes == 0 ? "" : ", peak memory " + bytes_text(bytes);
}

}  // namespace trireme
